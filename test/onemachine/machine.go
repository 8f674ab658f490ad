// Package onemachine is the harness of one machine: `modeldock up` as a real
// process with a data directory, a port and model processes of its own.
package onemachine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/test/scenario"
)

// binary is $MODELDOCK_BIN, or built once for all tests of a process.
var binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("MODELDOCK_BIN"); bin != "" {
		return bin, nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("modeldock-test-%d", os.Getuid()))
	bin := filepath.Join(dir, "modeldock")
	out, err := exec.Command("go", "build", "-o", bin, "modeldock.io/cmd/modeldock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build modeldock: %w: %s", err, out)
	}
	return bin, nil
})

// Machine is one running platform; it implements scenario.Harness.
type Machine struct {
	dir   string
	flags []string
	cmd   *exec.Cmd
	exit  chan struct{} // closed when the process has ended
	url   string
	keys  map[string]string
	log   *logBuffer
}

// New starts a platform of the test's own and stops it at the end.
func New(t testing.TB, flags ...string) *Machine {
	t.Helper()
	m := &Machine{dir: t.TempDir(), flags: flags, log: &logBuffer{}}
	t.Cleanup(func() {
		m.stop(t)
		if t.Failed() {
			t.Logf("modeldock up said:\n%s", m.log.tail(60))
		}
	})
	m.Start(t)
	return m
}

// Data is the data directory.
func (m *Machine) Data() string { return filepath.Join(m.dir, "data") }

// Start implements scenario.Harness.
func (m *Machine) Start(t testing.TB) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", m.Data(), "--stop-grace", "10s"}, m.flags...)
	m.cmd = exec.Command(bin, args...)
	m.cmd.Env = append(os.Environ(), m.Environment()...)
	out, err := m.cmd.StderrPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.exit = make(chan struct{})
	url := make(chan string, 1)
	go m.follow(out, url, m.cmd, m.exit)
	select {
	case m.url = <-url:
	case <-m.exit:
		t.Fatalf("modeldock up ended: %s", m.log.tail(20))
	case <-time.After(scenario.Patience):
		t.Fatalf("modeldock up is not ready: %s", m.log.tail(20))
	}
	data, err := os.ReadFile(filepath.Join(m.Data(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m.keys); err != nil {
		t.Fatal(err)
	}
}

func (m *Machine) follow(out io.Reader, url chan<- string, cmd *exec.Cmd, exit chan struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m.log.add(lines.Text())
		if u, ok := strings.CutPrefix(lines.Text(), "ModelDock is ready: "); ok {
			url <- u
		}
	}
	_ = cmd.Wait()
	close(exit)
}

// Crash implements scenario.Harness: kill -9 of this very process.
func (m *Machine) Crash(t testing.TB) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	m.AwaitExit(t, "after kill -9, which should take every model with it")
}

// AwaitExit waits until the process has ended and everything that inherited its
// output is gone too.
func (m *Machine) AwaitExit(t testing.TB, when string) {
	t.Helper()
	select {
	case <-m.exit:
	case <-time.After(scenario.Patience):
		t.Fatalf("modeldock up or a child of it still holds its output %s; processes left: %v", when, m.Processes(t, ""))
	}
}

// stop ends the platform the polite way and fails the test if it does not
// exit 0 or leaves a process behind.
func (m *Machine) stop(t testing.TB) {
	select {
	case <-m.exit:
	default:
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-m.exit:
			if code := m.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("modeldock up exited %d after SIGTERM", code)
			}
		case <-time.After(scenario.Patience):
			t.Errorf("modeldock up does not stop; it is killed")
			_ = m.cmd.Process.Kill()
			m.AwaitExit(t, "after kill -9")
		}
	}
	m.NoProcesses(t)
}

// NoProcesses waits until nothing that belongs to this machine is left.
func (m *Machine) NoProcesses(t testing.TB) {
	t.Helper()
	scenario.Eventually(t, "all processes of "+m.Data()+" to be gone", func() bool {
		return len(m.Processes(t, "")) == 0
	}, func() any { return m.Processes(t, "") })
}

// API implements scenario.Harness.
func (m *Machine) API() string { return m.url }

// Gateway implements scenario.Harness: one listener serves both.
func (m *Machine) Gateway() string { return m.url }

// Key implements scenario.Harness.
func (m *Machine) Key(who string) string { return m.keys[who] }

// Environment is what a command line needs to find this machine's context.
func (m *Machine) Environment() []string {
	return []string{"XDG_CONFIG_HOME=" + filepath.Join(m.dir, "config")}
}

// Binary is the modeldock that runs.
func (m *Machine) Binary(t testing.TB) string {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// PID is the process id of `modeldock up`.
func (m *Machine) PID() int { return m.cmd.Process.Pid }

// Engines implements scenario.Harness: living processes of a reservation.
func (m *Machine) Engines(t testing.TB, tenant, id string) int {
	t.Helper()
	return len(m.Processes(t, delivery.ObjectName(budget.Ref{Tenant: tenant, ID: id})))
}

// Processes lists the living processes that this data directory's platform
// started, supervisors included; with object only that object's engines. They
// are known by the run id in their environment, which begins with the data
// directory's own id; an engine's HOME names its object.
func (m *Machine) Processes(t testing.TB, object string) []int {
	t.Helper()
	run := []byte("MODELDOCK_RUN_ID=" + m.identity(t) + ".")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || zombie(pid) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(environ, run) && bytes.Contains(environ, []byte(object)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// identity is the data directory's own id, as the local target derives it.
func (m *Machine) identity(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.Data(), "instance"))
	if err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(m.Data(), &st); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", strings.TrimSpace(string(raw)), st.Dev, st.Ino))
	return hex.EncodeToString(sum[:])[:16]
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
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

// Stop ends the platform the polite way; Start brings it back.
func (m *Machine) Stop(t testing.TB) {
	t.Helper()
	m.stop(t)
}
