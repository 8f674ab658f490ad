package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder with somebody's files is refused, and nothing in it is touched,
// though its folders have the names of ours.
func TestForeignFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	photo := filepath.Join(dir, "images", "photo.jpg")
	if err := os.Mkdir(filepath.Dir(photo), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(photo, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), Options{ControlPlaneOnly: true, Dir: dir})
	if err == nil {
		t.Fatal("a cluster starts there", c.Stop())
	}
	if !strings.Contains(err.Error(), "such as images") {
		t.Errorf("the error does not name what is there: %v", err)
	}
	if content, err := os.ReadFile(photo); err != nil || string(content) != "mine" {
		t.Errorf("a file is %q, %v", content, err)
	}
}

// What a dead cluster had is freed, a living one's is not: folders that both
// use go with the last of them that has real nodes.
func TestDeadClustersAreFreed(t *testing.T) {
	t.Parallel()
	r := registry{dir: t.TempDir()}
	temporary, shared := filepath.Join(t.TempDir(), "cluster"), filepath.Join(t.TempDir(), "shared")
	for _, dir := range []string{temporary, shared} {
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	gone := process{PID: os.Getpid(), Started: "1"} // the number is another process's now
	dead := &record{ID: "00000000", Dir: temporary, Temporary: true, Owner: gone, Block: -1, MadeDirs: []string{shared}}
	nodes := &record{ID: "00000001", Dir: t.TempDir(), Owner: processOf(os.Getpid()), Block: 7, Bridge: "md00000001", MadeDirs: []string{shared}}
	plain := &record{ID: "00000002", Dir: t.TempDir(), Owner: processOf(os.Getpid()), Block: -1}
	for _, rec := range []*record{dead, nodes, plain} {
		if err := r.write(rec); err != nil {
			t.Fatal(err)
		}
	}
	left, err := r.living(t.Context())
	if err != nil || len(left) != 2 {
		t.Fatalf("living clusters are %v, %v", left, err)
	}
	if exists(temporary) || !exists(shared) || !exists(nodes.Dir) {
		t.Errorf("the dead cluster's folder is there: %t; the shared: %t; the living one's: %t", exists(temporary), exists(shared), exists(nodes.Dir))
	}
	if err := r.release(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	if exists(shared) || !exists(plain.Dir) {
		t.Error("the last cluster with nodes leaves a folder that was made for nodes, or takes another's")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
