package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/delivery/local/supervise"
)

// itself makes the test binary behave as modeldock, in a process of its own.
const itself = "modeldock"

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervise.Subcommand:
			os.Exit(supervise.Main(os.Args[2:]))
		case simulated.Subcommand:
			os.Exit(simulated.Main(os.Args[2:]))
		case itself:
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := run(ctx, os.Args[2:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
			stop()
			os.Exit(code)
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "modeldock-cli-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() { shared.stop() }()
	for name, value := range map[string]string{"XDG_CONFIG_HOME": filepath.Join(dir, "config"), "MODELDOCK_URL": "", "MODELDOCK_KEY": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// output collects what a command writes, also while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// done is one finished command.
type done struct {
	*testing.T
	args     []string
	code     int
	out, err string
}

// modeldock runs one command line in this process.
func modeldock(t *testing.T, args ...string) done {
	t.Helper()
	return feed(t, "", args...)
}

func feed(t *testing.T, in string, args ...string) done {
	t.Helper()
	var out, errs output
	code := run(t.Context(), args, streams{in: strings.NewReader(in), out: &out, err: &errs})
	return done{t, args, code, out.String(), errs.String()}
}

// apart runs one command line as a process with an environment of its own.
func apart(t *testing.T, env []string, args ...string) done {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{itself}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return done{t, args, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// exits checks the exit code and what the command said (both streams).
func (d done) exits(code int, says ...string) done {
	d.Helper()
	if d.code != code {
		d.Fatalf("modeldock %v exited %d, want %d\n%s%s", d.args, d.code, code, d.out, d.err)
	}
	for _, text := range says {
		if !strings.Contains(d.out+d.err, text) {
			d.Errorf("modeldock %v does not say %q:\n%s%s", d.args, text, d.out, d.err)
		}
	}
	return d
}

// machine is one `modeldock up` for all tests: many cards and a large pool, so
// that tests with tenants of their own do not meet.
type machine struct {
	once  sync.Once
	url   string
	admin string // path of a file with the admin's key alone
	err   error
	end   context.CancelFunc
	code  chan int
	dir   string
	log   output
	n     atomic.Int64
}

var shared = &machine{} //nolint:gochecknoglobals // one server for the whole package

func (m *machine) start() {
	if m.dir, m.err = os.MkdirTemp("", "modeldock-up-"); m.err != nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	m.end, m.code = end, make(chan int, 1)
	read, write := io.Pipe()
	go func() {
		m.code <- run(ctx, []string{"up", "--listen", "127.0.0.1:0", "--data-dir", m.dir, "--cards", "32x24576", "--stop-grace", "2s"},
			streams{in: strings.NewReader(""), out: write, err: write})
		_ = write.Close()
	}()
	ready := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			_, _ = fmt.Fprintln(&m.log, lines.Text())
			if url, ok := strings.CutPrefix(lines.Text(), "ModelDock is ready: "); ok {
				ready <- url
			}
		}
		close(ready)
	}()
	select {
	case m.url = <-ready:
	case <-time.After(patience):
	}
	if m.url == "" {
		m.err = fmt.Errorf("modeldock up is not ready: %s", m.log.String())
	}
	if m.err != nil {
		return
	}
	var keys map[string]string
	data, err := os.ReadFile(filepath.Join(m.dir, "keys.json"))
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	m.admin = filepath.Join(m.dir, "admin.key")
	m.err = errors.Join(err, os.WriteFile(m.admin, []byte(keys[adminEntry]), 0o600))
}

func (m *machine) stop() {
	if m.end == nil {
		return
	}
	m.end()
	if code := <-m.code; code != exitOK {
		fmt.Fprintf(os.Stderr, "modeldock up exited %d:\n%s", code, m.log.String())
	}
	_ = os.RemoveAll(m.dir)
}

// as are the global flags of one caller.
type as struct {
	*testing.T
	tenant string
	flags  []string
}

func (a as) run(args ...string) done {
	a.Helper()
	return modeldock(a.T, slices.Concat(a.flags, args)...)
}

func admin(t *testing.T) as {
	t.Helper()
	shared.once.Do(shared.start)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	a := as{t, "", []string{"--url", shared.url, "--key-file", shared.admin}}
	a.run("pool", "set", "default", "200").exits(exitOK)
	return a
}

// tenant is a new tenant with two slots and a key of its own.
func tenant(t *testing.T) as {
	t.Helper()
	boss := admin(t)
	name := fmt.Sprintf("t%d", shared.n.Add(1))
	boss.run("quota", "set", name, "2").exits(exitOK, name)
	key := boss.run("key", "create", name, "-o", "name").exits(exitOK).out
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return as{t, name, []string{"--url", shared.url, "--key-file", file}}
}
