package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A clean stop leaves no empty directories, also where objects go on after
// the next start; what an engine wrote stays, and its links lead nowhere.
func TestStopLeavesNoEmptyDirectories(t *testing.T) {
	t.Parallel()
	b := setup(t)
	empty, full := desired("t", "empty"), desired("t", "full")
	b.apply(empty)
	b.untilReady(empty)
	b.stop(b.target)
	if left, err := os.ReadDir(b.cfg.TempDir); err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v (%v)", left, err)
	}

	b.start()
	b.apply(full)
	b.untilReady(empty)
	b.untilReady(full)
	homes, err := filepath.Glob(filepath.Join(b.target.scratch.root, "u*", full.Name))
	if err != nil || len(homes) != 1 {
		t.Fatalf("%v (%v)", homes, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere", "inside")
	if err := errors.Join(os.MkdirAll(elsewhere, 0o700), os.Symlink(filepath.Dir(elsewhere), filepath.Join(homes[0], "link")), os.Mkdir(filepath.Join(homes[0], "hollow"), 0o700)); err != nil {
		t.Fatal(err)
	}
	b.stop(b.target)
	for path, stays := range map[string]bool{
		filepath.Join(homes[0], "link"): true, elsewhere: true, filepath.Join(homes[0], "hollow"): false,
		filepath.Join(filepath.Dir(homes[0]), empty.Name): false,
	} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == stays {
			t.Errorf("%s: stays %t, want %t (%v)", path, !stays, stays, err)
		}
	}
}

// Replicas of one model that start together all get their directory.
func TestScratchIsMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newScratch(publicDir(t), "id")
	who := user{Tenant: "team-a"}
	if os.Geteuid() == 0 {
		who.UID = firstUID
	}
	for i := range 50 {
		object := "object-" + strconv.Itoa(i)
		failed := make(chan error, 4)
		for range cap(failed) {
			go func() { _, err := s.Work(who, object); failed <- err }()
		}
		for range cap(failed) {
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
		}
	}
}
