package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// leak opens a file as a shell's redirection does: every child inherits it.
func leak(t *testing.T) (fd int, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, path
}

// Neither the supervisor nor the engine gets a file that ModelDock inherited.
func TestInheritedFilesReachNobody(t *testing.T) {
	t.Parallel()
	fd, path := leak(t)
	p, spec := start(t, fmt.Sprintf(`cat /proc/$$/fd/%d; for f in /proc/$$/fd/*; do readlink "$f"; done; sleep 1000 & echo up; wait`, fd))
	untilLogged(t, spec, "up")
	raw, err := os.ReadFile(spec.LogFile)
	if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), path) {
		t.Errorf("the engine sees %s (%v)", raw, err)
	}
	for _, pid := range []int{p.PID, p.Model.PID} {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(links) < 3 {
			t.Fatalf("files of %d: %v (%v)", pid, links, err)
		}
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && to == path {
				t.Errorf("process %d holds %s as %s", pid, to, l)
			}
		}
		if pid == p.Model.PID && len(links) != 3 {
			t.Errorf("the engine has %v, want 0, 1 and 2", links)
		}
	}
}

// Whoever else starts a supervisor: it keeps for itself what it was given.
func TestBothWaysOfKeeping(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func() error{"by range": keepInherited, "one by one": keepListed} {
		fd, _ := leak(t)
		if err := keep(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: flags %x (%v)", name, flags, err)
		}
	}
}
