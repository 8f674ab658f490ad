package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nodeInitSource is built at each start, so that users of this package need not
// know where its source is.
//
//go:embed nodeinit/main.go
var nodeInitSource []byte

// Image is a container image made of files of this machine; programs in it must
// be static (CGO_ENABLED=0), for there is nothing else inside.
type Image struct {
	Name       string            // with a registry's name and a tag: "modeldock.test/engine:1"
	Files      map[string]string // path in the image → file here; its mode is kept
	Entrypoint []string
	Env        []string // NAME=value
	User       string   // such as "65532"; default root
}

// LoadImage builds the image and puts it on every real node. Pods that use it
// say imagePullPolicy: Never.
func (c *Cluster) LoadImage(ctx context.Context, image Image) error {
	archive, err := c.buildImage(ctx, image)
	if err != nil {
		return err
	}
	return c.LoadArchive(ctx, archive)
}

// LoadArchive puts the images of an archive, as `docker save` writes it or in
// the OCI layout, on every real node.
func (c *Cluster) LoadArchive(ctx context.Context, archive string) error {
	for _, n := range c.nodes {
		if err := n.load(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) load(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("find an image: %w", err)
	}
	if _, err := n.ctr(ctx, "--namespace", "k8s.io", "images", "import", "--snapshotter", snapshotter(n.Dir), archive); err != nil {
		return fmt.Errorf("import the image %s on %s: %w", archive, n.Name, err)
	}
	return nil
}

// ctr runs the container runtime's client on the node.
func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	return n.Run(ctx, append([]string{n.cluster.programs["ctr"], "--address", runtimeSocket}, args...)...)
}

// Run runs a command among the node's processes and with its mounts, and
// returns what it prints.
func (n *Node) Run(ctx context.Context, command ...string) (string, error) {
	if n.launcher == nil {
		return "", fmt.Errorf("run %s on %s: it is off", command[0], n.Name)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &stdout, &stderr, "/"
	if err := n.launcher.start(cmd); err != nil {
		return "", fmt.Errorf("start %s on %s: %w", command[0], n.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("%s on %s: %w: %s", strings.Join(command, " "), n.Name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// buildImage writes the image's archive and returns its path.
func (c *Cluster) buildImage(ctx context.Context, image Image) (string, error) {
	tag, err := name.NewTag(image.Name, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", image.Name, err)
	}
	layer, err := image.layer()
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", image.Name, err)
	}
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		built, err = mutate.ConfigFile(built, image.config(built))
	}
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", image.Name, err)
	}
	path := filepath.Join(c.Dir, "images", fileName(image.Name)+".tar")
	if err := tarball.WriteToFile(path, tag, built); err != nil {
		return "", fmt.Errorf("write the image %s: %w", image.Name, err)
	}
	return path, ctx.Err()
}

func (i Image) config(built v1.Image) *v1.ConfigFile {
	config, err := built.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{} // it is made in memory and has one
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: i.Entrypoint, Env: i.Env, User: i.User}
	return config
}

// layer holds all files. It is read more than once, so it is kept in memory.
func (i Image) layer() (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, path := range slices.Sorted(maps.Keys(i.Files)) {
		if err := addFile(w, path, i.Files[path]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish a layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
}

func addFile(w *tar.Writer, path, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("read what goes into an image: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read what goes into an image: %w", err)
	}
	header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: int64(info.Mode().Perm()), Size: info.Size(), Typeflag: tar.TypeReg}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s to an image: %w", path, err)
	}
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("add %s to an image: %w", path, err)
	}
	return nil
}

func (c *Cluster) nodeInit() string { return filepath.Join(c.Dir, "nodes", "nodeinit") }

// buildNodeInit builds the first process of nodes and Pods.
func (c *Cluster) buildNodeInit(ctx context.Context) (string, error) {
	source := filepath.Join(c.Dir, "nodes", "nodeinit.go")
	if err := os.WriteFile(source, nodeInitSource, 0o600); err != nil {
		return "", fmt.Errorf("write the source of nodeinit: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", c.nodeInit(), source)
	cmd.Dir = filepath.Dir(source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build nodeinit: %w: %s", err, out), ctx.Err())
	}
	return c.nodeInit(), nil
}
