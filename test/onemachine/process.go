package onemachine

import (
	"bufio"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// ready is what a process says once it answers.
var ready = regexp.MustCompile(`^ModelDock (?:controller |gateway )?is ready: (\S+)$`)

// Process is one `modeldock` that serves, started again and again.
type Process struct {
	name   string
	bin    string
	args   []string
	env    []string
	serves bool // the management API
	url    atomic.Value
	cmd    *exec.Cmd
	exit   chan struct{} // closed when it has ended
	log    *logBuffer
}

// process prepares one; what it said is shown if the test fails.
func (m *Machine) process(t testing.TB, args ...string) *Process {
	t.Helper()
	p := &Process{
		name: "modeldock " + args[0], bin: m.Binary(t), args: args, log: &logBuffer{},
		env: m.environ(),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, p.log.tail(60))
		}
	})
	return p
}

// Beside prepares another `modeldock` that serves, with the machine's
// environment. It is stopped at the test's end, before the machine.
func (m *Machine) Beside(t testing.TB, args ...string) *Process {
	t.Helper()
	p := m.process(t, args...)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Start starts it and returns once it answers.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Env = p.env
	out, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.exit = make(chan struct{})
	url := make(chan string, 1)
	go p.follow(out, url, p.cmd, p.exit)
	select {
	case u := <-url:
		p.url.Store(u)
	case <-p.exit:
		t.Fatalf("%s ended: %s", p.name, p.log.tail(20))
	case <-time.After(scenario.Patience):
		t.Fatalf("%s is not ready: %s", p.name, p.log.tail(20))
	}
}

func (p *Process) follow(out io.Reader, url chan<- string, cmd *exec.Cmd, exit chan struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.log.add(lines.Text())
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			url <- found[1]
		}
	}
	_ = cmd.Wait()
	close(exit)
}

// Name is what it was started as.
func (p *Process) Name() string { return p.name }

// PID is the process id of its latest start.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is all that it has said, of every start.
func (p *Process) Log() string { return p.log.tail(math.MaxInt32) }

// URL is where it answers, or answered last.
func (p *Process) URL() string {
	u, _ := p.url.Load().(string)
	return u
}

// Kill ends this very process with kill -9.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	p.AwaitExit(t, "after kill -9, which should take every model with it")
}

// AwaitExit waits until the process has ended and everything that inherited its
// output is gone too.
func (p *Process) AwaitExit(t testing.TB, when string) {
	t.Helper()
	select {
	case <-p.exit:
	case <-time.After(scenario.Patience):
		t.Fatalf("%s or a child of it still holds its output %s", p.name, when)
	}
}

// Stop ends it the polite way and fails the test if it does not exit 0.
func (p *Process) Stop(t testing.TB) {
	if p.exit == nil {
		return // it never started
	}
	select {
	case <-p.exit:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exit:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s exited %d after SIGTERM", p.name, code)
		}
	case <-time.After(scenario.Patience):
		t.Errorf("%s does not stop; it is killed", p.name)
		_ = p.cmd.Process.Kill()
		p.AwaitExit(t, "after kill -9")
	}
}

// logBuffer keeps what the process said.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBuffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
}

func (b *logBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines[max(0, len(b.lines)-n):], "\n")
}
