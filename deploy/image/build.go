package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is whom the program runs as: nobody's number on any distribution.
const user = "10001:10001"

// componentsFile is where the list of components lies in the image, and
// componentsLabel holds its digest.
const (
	componentsFile  = "sbom.cdx.json"
	componentsLabel = "io.modeldock.sbom.sha256"
	pathLabel       = "io.modeldock.sbom.path"
)

// Options say what an image is made of.
type Options struct {
	Binary   string // its base name is the program's name in the image
	Name     string // with a tag
	Version  string
	Revision string
}

// Image is one that was built, not written yet.
type Image struct {
	tag   name.Tag
	base  string
	image v1.Image
}

// Build makes the image in memory. Times in it are the epoch's, and who built
// it where leaves no trace.
func Build(o Options) (*Image, error) {
	tag, err := name.NewTag(o.Name, name.WithDefaultRegistry("docker.io"))
	if err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	program, architecture, err := readStatic(o.Binary)
	if err != nil {
		return nil, err
	}
	made, err := madeFrom(o.Binary)
	if err != nil {
		return nil, err
	}
	if o.Version == "" {
		o.Version = tag.TagStr()
	}
	if o.Revision == "" {
		o.Revision = made.revision()
	}
	components, err := made.components(o.Version)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(o.Binary)
	layer, err := layerOf(file{base, 0o755, program}, file{componentsFile, 0o444, components})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer)
	if err != nil {
		return nil, fmt.Errorf("put the layer into the image: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{Entrypoint: []string{"/" + base}, User: user, WorkingDir: "/", Labels: labels(o, base, components)}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	return &Image{tag: tag, base: base, image: image}, nil
}

func labels(o Options, base string, components []byte) map[string]string {
	sum := sha256.Sum256(components)
	l := map[string]string{
		"org.opencontainers.image.title": base, "org.opencontainers.image.version": o.Version, "org.opencontainers.image.licenses": "Apache-2.0",
		pathLabel: "/" + componentsFile, componentsLabel: hex.EncodeToString(sum[:]),
	}
	if o.Revision != "" {
		l["org.opencontainers.image.revision"] = o.Revision
	}
	return l
}

// readStatic reads the program and refuses one that needs a loader or
// libraries, which the image would not have.
func readStatic(path string) (program []byte, architecture string, err error) {
	program, err = os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the program: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, "", fmt.Errorf("%s is no Linux program: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, "", fmt.Errorf("%s needs a dynamic loader, and the image has none: build it with CGO_ENABLED=0", path)
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return program, "amd64", nil
	case elf.EM_AARCH64:
		return program, "arm64", nil
	}
	return nil, "", fmt.Errorf("%s is for %s; images are made for amd64 and arm64", path, f.Machine)
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func layerOf(files ...file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var errs []error
	for _, f := range files {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: path.Clean(f.name), Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}))
		_, err := w.Write(f.content)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return nil, fmt.Errorf("write the image's layer: %w", err)
	}
	text := out.Bytes()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the image's layer: %w", err)
	}
	return layer, nil
}

// Write puts the image into dir, in both forms, and returns its digest.
func (i *Image) Write(dir string) (string, error) {
	target := filepath.Join(dir, i.base)
	if err := errors.Join(os.RemoveAll(target), os.MkdirAll(target, 0o755)); err != nil { //nolint:gosec // images are for everybody
		return "", fmt.Errorf("make the folder of the image: %w", err)
	}
	to, err := layout.Write(target, empty.Index)
	if err == nil {
		err = to.AppendImage(i.image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": i.tag.String()}))
	}
	if err != nil {
		return "", fmt.Errorf("write the OCI layout %s: %w", target, err)
	}
	if err := tarball.WriteToFile(target+".tar", i.tag, i.image); err != nil {
		return "", fmt.Errorf("write the archive %s.tar: %w", target, err)
	}
	digest, err := i.image.Digest()
	if err != nil {
		return "", fmt.Errorf("compute the image's digest: %w", err)
	}
	return digest.String(), nil
}
