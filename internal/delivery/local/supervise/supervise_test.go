package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/delivery/local/procfs"
)

// The test binary is its own supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func start(t *testing.T, script string, change ...func(*Spec)) (*Process, Spec) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: t.TempDir(),
		LogFile: filepath.Join(t.TempDir(), "logs", "m.log"),
	}
	for _, c := range change {
		c(&spec)
	}
	p, err := Start(self, "run."+t.Name(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0); <-p.Done() })
	return p, spec
}

func ended(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(20 * time.Second):
		t.Fatal("it never ended")
		return Exit{}
	}
}

func TestExitCodeAndLastLines(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; echo dying >&2; exit 7`)
	e := ended(t, p)
	if e.Code != 7 || e.Signal != "" || e.Lost || len(e.Tail) != tailLines || e.Tail[tailLines-1] != "dying" {
		t.Fatalf("%+v", e)
	}
	raw, err := os.ReadFile(spec.LogFile)
	if err != nil || strings.Count(string(raw), "line ") != 50 {
		t.Fatalf("the log holds %q (%v)", raw, err)
	}
}

func TestSignalIsReported(t *testing.T) {
	t.Parallel()
	p, _ := start(t, `kill -9 $$`)
	if e := ended(t, p); e.Code != -1 || e.Signal != "killed" || e.Lost {
		t.Fatalf("%+v", e)
	}
}

func TestStopIsPoliteFirst(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	untilLogged(t, spec, "up")
	p.Stop(time.Minute)
	if e := ended(t, p); e.Code != 0 || !slices.Contains(e.Tail, "bye") {
		t.Fatalf("%+v", e)
	}
}

func TestStopIsNotPoliteForEver(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `trap '' TERM; setsid sh -c 'trap "" TERM; echo child; while :; do sleep 1; done' & echo up; while :; do sleep 1; done`)
	untilLogged(t, spec, "up")
	untilLogged(t, spec, "child")
	table, err := procfs.Table()
	if err != nil {
		t.Fatal(err)
	}
	below := procfs.Descendants(table, p.PID)
	if len(below) < 2 {
		t.Fatalf("below the supervisor run %v", below)
	}
	p.Stop(50 * time.Millisecond)
	if e := ended(t, p); e.Code != -1 || e.Signal != "killed" {
		t.Fatalf("%+v", e)
	}
	for _, pid := range below {
		if now, err := procfs.Stat(pid); err == nil && !now.Zombie() && now.StartTicks == table[pid].StartTicks {
			t.Errorf("process %d is left", pid)
		}
	}
}

// The end of the control pipe is what a killed ModelDock leaves behind.
func TestEndOfThePipeMeansStop(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `trap '' TERM; echo up; while :; do sleep 1; done`)
	untilLogged(t, spec, "up")
	p.mu.Lock()
	_ = p.control.Close()
	p.mu.Unlock()
	if e := ended(t, p); e.Signal != "killed" {
		t.Fatalf("%+v", e)
	}
}

func TestKilledSupervisorIsLost(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `echo up; exec sleep 1000`)
	untilLogged(t, spec, "up")
	supervisor, err := os.FindProcess(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Kill(); err != nil {
		t.Fatal(err)
	}
	if e := ended(t, p); !e.Lost {
		t.Fatalf("%+v", e)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		now, err := procfs.Stat(p.Model.PID)
		if err != nil || now.Zombie() || now.StartTicks != p.Model.StartTicks {
			return // the parent-death signal reached it
		}
		if time.Now().After(deadline) {
			t.Fatalf("the model %+v outlives its supervisor", now)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(self, "run", Spec{Command: []string{"/nowhere/engine"}, LogFile: filepath.Join(t.TempDir(), "m.log")})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/engine: no such file") {
		t.Fatalf("%v", err)
	}
	if _, err := Start("/nowhere/modeldock", "run", Spec{}); err == nil {
		t.Fatal("a supervisor that does not exist was started")
	}
}

func TestLogsRotate(t *testing.T) {
	t.Parallel()
	p, spec := start(t, `i=0; while [ $i -lt 200 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done`,
		func(s *Spec) { s.LogBytes = 1000 })
	ended(t, p)
	for _, suffix := range []string{"", ".1", ".2"} {
		info, err := os.Stat(spec.LogFile + suffix)
		if err != nil || info.Size() > 1000 || info.Size() == 0 {
			t.Errorf("log%s: %+v %v", suffix, info, err)
		}
	}
	if _, err := os.Stat(spec.LogFile + ".3"); !os.IsNotExist(err) {
		t.Errorf("too many logs are kept (%v)", err)
	}
}

func untilLogged(t *testing.T, spec Spec, line string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		raw, err := os.ReadFile(spec.LogFile)
		if err == nil && strings.Contains(string(raw), "\n"+line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was never logged: %q %v", line, raw, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// When memory is used up, the kernel ends engines before it ends us.
func TestEnginesEndFirstWithoutMemory(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile(oomFile)
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.TrimSpace(string(own))
	// The supervisor's own is back a moment after the start.
	p, _ := start(t, `cat /proc/self/oom_score_adj; until [ "$(cat /proc/$PPID/oom_score_adj)" = "`+ours+`" ]; do sleep 0.01; done`)
	if e := ended(t, p); len(e.Tail) != 1 || e.Tail[0] != "500" {
		t.Fatalf("with %s ourselves: %+v", ours, e)
	}
}
