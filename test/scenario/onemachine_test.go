package scenario_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// binary is built once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("MODELDOCK_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "modeldock-scenario-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "modeldock")
	out, err := exec.Command("go", "build", "-o", bin, "modeldock.io/cmd/modeldock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build modeldock: %w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := binary(); err == nil && os.Getenv("MODELDOCK_BIN") == "" {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// machine is `modeldock up` as a process with its own data directory.
type machine struct {
	dir   string
	flags []string
	cmd   *exec.Cmd
	exit  chan struct{} // closed when the process has ended
	url   string
	keys  map[string]string
	log   *logBuffer
}

// newMachine starts a platform of the test's own and stops it at the end.
func newMachine(t testing.TB, flags ...string) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir(), flags: flags, log: &logBuffer{}}
	t.Cleanup(func() {
		m.stop(t)
		if t.Failed() {
			t.Logf("modeldock up said:\n%s", m.log.tail(60))
		}
	})
	m.Start(t)
	return m
}

func (m *machine) data() string { return filepath.Join(m.dir, "data") }

// Start implements scenario.Harness.
func (m *machine) Start(t testing.TB) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", m.data(), "--stop-grace", "10s"}, m.flags...)
	m.cmd = exec.Command(bin, args...)
	m.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(m.dir, "config"), "TMPDIR="+os.TempDir())
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
	data, err := os.ReadFile(filepath.Join(m.data(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m.keys); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) follow(out io.Reader, url chan<- string, cmd *exec.Cmd, exit chan struct{}) {
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
func (m *machine) Crash(t testing.TB) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-m.exit
}

// stop ends the platform the polite way and fails the test if it does not
// exit 0 or leaves a process behind.
func (m *machine) stop(t testing.TB) {
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
			<-m.exit
		}
	}
	m.noProcesses(t)
}

// noProcesses waits until nothing that belongs to this machine is left.
func (m *machine) noProcesses(t testing.TB) {
	t.Helper()
	scenario.Eventually(t, "all processes of "+m.data()+" to be gone", func() bool {
		return len(m.processes(t, "")) == 0
	}, func() any { return m.processes(t, "") })
}

func (m *machine) API() string           { return m.url }
func (m *machine) Gateway() string       { return m.url }
func (m *machine) Key(who string) string { return m.keys[who] }

// Engines implements scenario.Harness: living processes of a reservation.
func (m *machine) Engines(t testing.TB, tenant, id string) int {
	t.Helper()
	name := objectName(tenant, id)
	return len(m.processes(t, name))
}

// processes lists pids other than `up` itself whose command line or
// environment names this data directory and, if given, the object.
func (m *machine) processes(t testing.TB, object string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || (m.cmd.Process != nil && pid == m.cmd.Process.Pid) || zombie(pid) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		all := append(append(cmdline, 0), environ...)
		if bytes.Contains(all, []byte(m.data())) && bytes.Contains(all, []byte(object)) && !bytes.Contains(cmdline, []byte("\x00up\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// get asks a path without a key.
func (m *machine) get(t testing.TB, path string) *http.Response {
	t.Helper()
	resp, err := http.Get(m.url + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
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
