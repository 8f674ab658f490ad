package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/device"
	"modeldock.io/internal/modelspec"
)

const ledger = "ledger-1"

// bench is a fresh target in its own directory.
type bench struct {
	t      *testing.T
	target *Target
	cfg    Config

	mu        sync.Mutex
	endpoints []Endpoint
	inFlight  int
	gone      []delivery.Status
}

func setup(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t}
	b.cfg = testConfig(t, t.TempDir())
	b.cfg.OnEndpoints = func(e []Endpoint) { b.mu.Lock(); b.endpoints = e; b.mu.Unlock() }
	b.cfg.OnChange = func(s delivery.Status) {
		if !s.Exists {
			b.mu.Lock()
			b.gone = append(b.gone, s)
			b.mu.Unlock()
		}
	}
	b.cfg.InFlight = func(string) int { b.mu.Lock(); defer b.mu.Unlock(); return b.inFlight }
	for _, c := range change {
		c(&b.cfg)
	}
	b.start()
	return b
}

func testConfig(t *testing.T, dir string) Config {
	t.Helper()
	inv, err := device.Simulated("node-1", "2x24576")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		DataDir: dir + "/data", TempDir: publicDir(t), Executable: ownProgram(t), Node: "node-1", Ledger: ledger, Inventory: inv,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), StopGrace: 5 * time.Second, KillGrace: time.Second, Memory: plenty,
	}
}

// plenty is a machine that never is short of memory, whatever else runs on it.
func plenty() (procfs.Memory, error) {
	return procfs.Memory{TotalMiB: 64_000, AvailableMiB: 32_000}, nil
}

// publicDir is a directory that other users can enter, as /tmp is; t.TempDir
// is not.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "modeldock-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func ownProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func (b *bench) start() {
	b.t.Helper()
	var target *Target
	var err error
	// A process that another test is just starting holds a copy of the closed
	// lock between its fork and its exec.
	eventually(b.t, func() bool {
		target, err = New(b.cfg)
		return !errors.Is(err, syscall.EWOULDBLOCK)
	}, func() string { return err.Error() })
	if err != nil {
		b.t.Fatal(err)
	}
	if err := target.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.target = target
	b.t.Cleanup(func() { b.stop(target) })
}

func (b *bench) stop(target *Target) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = target.Close(ctx) // closing twice only reports the closed lock
}

func desired(tenant, id string, change ...func(*modelspec.Model)) delivery.Desired {
	ref := budget.Ref{Tenant: tenant, ID: id}
	m := modelspec.Default(id)
	m.Args = []string{"--load-time=30ms", "--ttft=1ms", "--token-time=1ms", "--tokens=4"}
	for _, c := range change {
		c(&m)
	}
	return delivery.Desired{Ref: ref, Ledger: ledger, Name: delivery.ObjectName(ref), Generation: 1, Model: m, Funded: m.Replicas.Funded()}
}

func withArgs(args ...string) func(*modelspec.Model) {
	return func(m *modelspec.Model) { m.Args = append(m.Args, args...) }
}

func withMemory(mib int64) func(*modelspec.Model) {
	return func(m *modelspec.Model) { m.GPUMemory = mib }
}

func (b *bench) apply(d delivery.Desired) budget.Object {
	b.t.Helper()
	obj, err := b.target.Apply(b.t.Context(), d)
	if err != nil {
		b.t.Fatal(err)
	}
	return obj
}

func (b *bench) delete(d delivery.Desired, obj budget.Object) {
	b.t.Helper()
	if err := b.target.Delete(b.t.Context(), d.Ref, obj.UID); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) status(d delivery.Desired) delivery.Status {
	b.t.Helper()
	st, err := b.target.Observe(b.t.Context(), d.Ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

// until waits for a condition on the object's status.
func (b *bench) until(d delivery.Desired, what string, cond func(delivery.Status) bool) delivery.Status {
	b.t.Helper()
	var st delivery.Status
	eventually(b.t, func() bool { st = b.status(d); return cond(st) }, func() string {
		return fmt.Sprintf("%s never became %s: %+v", d.Name, what, st)
	})
	return st
}

func (b *bench) untilReady(d delivery.Desired) delivery.Status {
	b.t.Helper()
	return b.until(d, "ready", func(s delivery.Status) bool { return s.Ready > 0 && s.Ready == s.Wanted })
}

func (b *bench) untilGone(d delivery.Desired) {
	b.t.Helper()
	b.until(d, "gone", func(s delivery.Status) bool { return !s.Exists })
}

// log is what the engine of replica 0 wrote.
func (b *bench) log(d delivery.Desired) string {
	r, err := b.target.Logs(b.t.Context(), d.Ref, "", 0, false)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Close() }()
	raw, err := io.ReadAll(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

func (b *bench) planFor(d delivery.Desired) engine.Plan {
	b.t.Helper()
	preset, err := engine.For(d.Model.Engine)
	if err != nil {
		b.t.Fatal(err)
	}
	plan, err := preset.Plan(d.Model, engine.Place{})
	if err != nil {
		b.t.Fatal(err)
	}
	return plan
}

func (b *bench) routed() []Endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.endpoints)
}

func eventually(t *testing.T, cond func() bool, failure func() string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal(failure())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// family is every living process that carries a run id of the data directory.
func family(t *testing.T, identity string) []int {
	t.Helper()
	table, err := procfs.Table()
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for pid, p := range table {
		if !p.Zombie() && strings.HasPrefix(procfs.Env(pid, supervise.RunIDVariable), identity+".") {
			out = append(out, pid)
		}
	}
	return out
}

func chat(t *testing.T, address, model string) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model)
	res, err := http.Post("http://"+address+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("chat answers %d %s (%v)", res.StatusCode, raw, err)
	}
	return string(raw)
}
