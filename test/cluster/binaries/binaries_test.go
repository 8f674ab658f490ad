package binaries

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	programs "modeldock.io/test/executable"
)

func TestRecipesBuildTheVersionsThatAreNamed(t *testing.T) {
	t.Parallel()
	b := Builder{Source: ".."}
	for _, r := range Recipes() {
		if err := b.pinned(r); err != nil {
			t.Error(err)
		}
		r.Version = "v0.0.1"
		if b.pinned(r) == nil {
			t.Errorf("%s: another version than go.mod's goes unnoticed", r.Name)
		}
	}
}

func TestExecutableIsNamedAsTheGoCommandDoes(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{"go.etcd.io/etcd/server/v3": "server", "k8s.io/kubernetes/cmd/kubelet": "kubelet"} {
		if got := executable(pkg); got != want {
			t.Errorf("%s: %s, want %s", pkg, got, want)
		}
	}
}

// script writes a program that prints one line.
func script(t *testing.T, dir, name, line string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := programs.Write(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+line+"'\n")); err != nil {
		t.Fatal(err)
	}
}

func TestFindPrefersWhatFits(t *testing.T) {
	assets, path, cache := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	cached := filepath.Join(cache, "kubernetes-"+KubernetesVersion)
	for _, name := range []string{"kube-apiserver", "kubectl", "kubelet"} {
		script(t, cached, name, "not asked")
	}
	script(t, assets, "kube-apiserver", "Kubernetes v1.37.0") // another patch release fits
	script(t, assets, "kubectl", "Client Version: v1.32.4-dispatcher")
	script(t, path, "kubelet", "Kubernetes v1.37.9")
	found, err := Find(t.Context(), cache, "kube-apiserver", "kubectl", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"kube-apiserver": assets, "kubectl": cached, "kubelet": path} {
		if want := filepath.Join(dir, name); found[name] != want {
			t.Errorf("%s is taken from %s, want %s", name, found[name], want)
		}
	}
}

func TestMissingProgramsAreAllNamed(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("PATH", t.TempDir())
	_, err := Find(t.Context(), t.TempDir(), "etcd", "kwok")
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "etcd v3.7.3, kwok v0.8.0") || !strings.Contains(err.Error(), "cluster-build.sh etcd kwok") {
		t.Errorf("error %v", err)
	}
}

// A build goes into the cache whole, under its version, and once.
func TestBuildIsDoneOnce(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	source, cache := t.TempDir(), t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(source, "tool", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(source, "tool"), 0o750); err != nil {
		t.Fatal(err)
	}
	// A module that requires itself stands for one that requires its sources.
	write("go.mod", "module test.example/tool/v3\n\ngo 1.26.0\n\nrequire test.example/pinned v1.2.3\n\nreplace test.example/pinned => ./\n")
	write("main.go", "package main\n\nfunc main() { println(\"v1.2.3\") }\n")
	r := Recipe{Name: "tool", Module: "test.example/pinned", Version: "v1.2.3", LDFlags: "-s", Programs: []Program{{Name: "renamed", Package: "test.example/tool/v3"}}}
	var logs [3]bytes.Buffer
	b := Builder{Source: source, Cache: cache, Log: &logs[2], Now: time.Now}
	var both sync.WaitGroup
	for i := range 2 { // as two runs of the script would
		both.Go(func() {
			b := Builder{Source: source, Cache: cache, Log: &logs[i], Now: time.Now}
			if err := b.Build(t.Context(), []Recipe{r}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	built := filepath.Join(cache, "tool-v1.2.3")
	if text := logs[0].String() + logs[1].String(); strings.Count(text, "== building") != 1 || !strings.Contains(text, "== tool v1.2.3 is in "+built) {
		t.Errorf("log:\n%s", text)
	}
	if info, err := os.Stat(filepath.Join(built, "renamed")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the program: %v", err)
	}
	// What does not build leaves nothing that looks built.
	write("main.go", "package main\n\nfunc main() { nonsense }\n")
	if err := os.RemoveAll(built); err != nil {
		t.Fatal(err)
	}
	if err := b.Build(t.Context(), []Recipe{r}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a broken build: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "*tool-*")); err != nil || len(left) != 0 {
		t.Errorf("after a broken build there are %v, %v", left, err)
	}
}
