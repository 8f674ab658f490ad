package procfs

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestParseStatWithAnUglyCommand(t *testing.T) {
	t.Parallel()
	raw := "42 (a) b (c) S 7 41 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0"
	p, err := parseStat([]byte(raw))
	if err != nil || p != (Process{PID: 42, PPID: 7, PGID: 41, State: 'S', StartTicks: 987654}) {
		t.Fatalf("%+v %v", p, err)
	}
	for _, bad := range []string{"", "42 a S 1", "42 (a) S 1 2", "x (a) S 7 41 41 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0"} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q became %+v", bad, p)
		}
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	table := map[int]Process{
		1: {PID: 1}, 2: {PID: 2, PPID: 1}, 3: {PID: 3, PPID: 2, State: 'Z'}, 4: {PID: 4, PPID: 3}, 5: {PID: 5, PPID: 1},
	}
	got := Descendants(table, 2)
	if !slices.Equal(got, []int{4}) {
		t.Fatalf("below 2 are %v; zombies do not count, their children do", got)
	}
}

func TestPortOwner(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	for pid, want := range map[int]Owner{os.Getpid(): Tree, child.Process.Pid: Stranger} {
		if got, err := PortOwner(port, pid); err != nil || got != want {
			t.Errorf("owner for %d is %d (%v), want %d", pid, got, err, want)
		}
	}
	if holder := PortHolder(port); holder != os.Getpid() {
		t.Errorf("pid %d holds the port", holder)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := PortOwner(port, os.Getpid()); err != nil || got == Tree {
		t.Errorf("owner of a closed port is %d (%v)", got, err)
	}
}

func TestEnvAndStatOfAChild(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "1000")
	child.Env = []string{"MARK=here", "MARKER=not"}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	// Right after the start the kernel may not have laid out the environment.
	got := ""
	for deadline := time.Now().Add(10 * time.Second); got != "here" && time.Now().Before(deadline); {
		got = Env(pid, "MARK")
	}
	if got != "here" {
		t.Errorf("MARK is %q", got)
	}
	p, err := Stat(pid)
	if err != nil || p.PPID != os.Getpid() || p.StartTicks == 0 {
		t.Errorf("stat %+v %v", p, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if p, err := Stat(pid); err == nil && p.StartTicks != 0 && p.PPID == os.Getpid() {
		t.Errorf("it is still there: %+v", p)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
