// Package onemachine is the harness of one machine: `modeldock up` as a real
// process with a data directory, a port and model processes of its own.
package onemachine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

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
	dsn   string // of a shared database; empty: the data directory has its own
	up    *Process
	keys  map[string]string

	controllers []*Process    // on the same database; see NewShared
	turn        atomic.Uint64 // of the management APIs
}

// New starts a platform of the test's own and stops it at the end.
func New(t testing.TB, flags ...string) *Machine {
	t.Helper()
	m := &Machine{dir: t.TempDir(), flags: flags}
	m.launch(t)
	return m
}

func (m *Machine) launch(t testing.TB) {
	t.Helper()
	args := append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", m.Data(), "--stop-grace", "10s"}, m.flags...)
	m.up = m.process(t, args...)
	t.Cleanup(func() {
		m.up.Stop(t)
		m.NoProcesses(t)
	})
	m.Start(t)
}

// Data is the data directory.
func (m *Machine) Data() string { return filepath.Join(m.dir, "data") }

// Start implements scenario.Harness.
func (m *Machine) Start(t testing.TB) {
	t.Helper()
	m.up.Start(t)
	data, err := os.ReadFile(filepath.Join(m.Data(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m.keys); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.controllers {
		c.Start(t)
	}
}

// Crash implements scenario.Harness: kill -9 of this very process, and of the
// controllers beside it.
func (m *Machine) Crash(t testing.TB) {
	t.Helper()
	for _, c := range m.controllers {
		c.Kill(t)
	}
	m.up.Kill(t)
}

// AwaitExit waits until the process has ended and everything that inherited its
// output is gone too.
func (m *Machine) AwaitExit(t testing.TB, when string) {
	t.Helper()
	m.up.AwaitExit(t, when)
}

// NoProcesses waits until nothing that belongs to this machine is left.
func (m *Machine) NoProcesses(t testing.TB) {
	t.Helper()
	scenario.Eventually(t, "all processes of "+m.Data()+" to be gone", func() bool {
		return len(m.Processes(t, "")) == 0
	}, func() any { return m.Processes(t, "") })
}

// API implements scenario.Harness: where there are several, one after the other.
func (m *Machine) API() string {
	apis := []string{m.up.URL()}
	for _, c := range m.controllers {
		if c.serves {
			apis = append(apis, c.URL())
		}
	}
	return apis[m.turn.Add(1)%uint64(len(apis))]
}

// Gateway implements scenario.Harness.
func (m *Machine) Gateway() string { return m.up.URL() }

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

// Command is a `modeldock` beside the platform, with its environment.
func (m *Machine) Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(m.Binary(t), args...)
	cmd.Env = m.environ()
	return cmd
}

func (m *Machine) environ() []string {
	return append(append(os.Environ(), m.Environment()...), "MODELDOCK_MYSQL_DSN="+m.dsn)
}

// PID is the process id of `modeldock up`.
func (m *Machine) PID() int { return m.up.PID() }

// Log is all that `modeldock up` has said, of every start.
func (m *Machine) Log() string { return m.up.Log() }

// Engines implements scenario.Harness: living processes of a reservation.
func (m *Machine) Engines(t testing.TB, tenant, id string) int {
	t.Helper()
	return len(m.EnginePIDs(t, tenant, id))
}

// EnginePIDs implements scenario.Local.
func (m *Machine) EnginePIDs(t testing.TB, tenant, id string) []int {
	t.Helper()
	return m.Processes(t, delivery.ObjectName(budget.Ref{Tenant: tenant, ID: id}))
}

// KillEngine implements scenario.Local.
func (m *Machine) KillEngine(t testing.TB, pid int) {
	t.Helper()
	if !slices.Contains(m.Processes(t, ""), pid) {
		t.Fatalf("process %d is none of this machine's", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill process %d: %v", pid, err)
	}
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

// Stop ends the platform the polite way; Start brings it back.
func (m *Machine) Stop(t testing.TB) {
	t.Helper()
	for _, c := range m.controllers {
		c.Stop(t)
	}
	m.up.Stop(t)
	m.NoProcesses(t)
}
