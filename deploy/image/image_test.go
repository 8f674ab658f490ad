package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// program builds this command itself, which has a dependency to list.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a program: %v: %s", err, out)
	}
	return path
}

func TestImageHoldsTheProgramAndWhatItIsMadeOf(t *testing.T) {
	t.Parallel()
	binary, dir := program(t), t.TempDir()
	built, err := Build(Options{Binary: binary, Name: "modeldock.test/program:1.2.3", Revision: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := built.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(dir, "program.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	files := contents(t, mutate.Extract(image))
	if len(files) != 2 {
		t.Errorf("the image holds %d files; it should hold the program and its list", len(files))
	}
	want, err := os.ReadFile(binary)
	if err != nil || string(files["program"]) != string(want) {
		t.Errorf("the program in the image is another one (%v)", err)
	}
	sum := sha256.Sum256(files[componentsFile])
	if l := config.Config.Labels; l[componentsLabel] != hex.EncodeToString(sum[:]) || l["org.opencontainers.image.version"] != "1.2.3" || l["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("labels: %v", l)
	}
	var list document
	if err := json.Unmarshal(files[componentsFile], &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list.Components {
		names = append(names, c.Name)
	}
	if text := strings.Join(names, " "); !strings.Contains(text, "github.com/google/go-containerregistry") || !strings.Contains(text, "std") {
		t.Errorf("the list of components names %v", names)
	}
	if config.Config.User != user || config.Config.Entrypoint[0] != "/program" {
		t.Errorf("it runs %v as %s", config.Config.Entrypoint, config.Config.User)
	}
	index, err := os.ReadFile(filepath.Join(dir, "program", "index.json"))
	if err != nil || !strings.Contains(string(index), digest) {
		t.Errorf("the OCI layout does not name %s (%v)", digest, err)
	}
}

func contents(t *testing.T, from io.ReadCloser) map[string][]byte {
	t.Helper()
	defer func() { _ = from.Close() }()
	files := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSameProgramGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	binary := program(t)
	var digests, archives []string
	for range 2 {
		dir := t.TempDir()
		built, err := Build(Options{Binary: binary, Name: "modeldock.test/program:1"})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := built.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(filepath.Join(dir, "program.tar"))
		if err != nil {
			t.Fatal(err)
		}
		digests, archives = append(digests, digest), append(archives, string(archive))
	}
	if digests[0] != digests[1] || archives[0] != archives[1] {
		t.Errorf("two builds differ: %v", digests)
	}
}

func TestProgramsThatNeedLibrariesAreRefused(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(Options{Binary: shell, Name: "modeldock.test/shell:1"}); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a program that needs a loader: %v", err)
	}
}
