package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"modeldock.io/test/executable"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/modelspec"
)

// withCommand makes a custom engine of a shell script; ${PORT} is its port.
func withCommand(script string, args ...string) func(*modelspec.Model) {
	return func(m *modelspec.Model) {
		m.Engine, m.Args, m.Command = modelspec.EngineCustom, nil, append([]string{"/bin/sh", "-c", script}, args...)
	}
}

// C151: somebody else takes the port before the engine listens. The stranger
// is neither called nor ended, and the replica gets another port.
func TestStrangerOnThePort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "slow", withCommand("exec sleep 1000"))
	b.apply(d)
	first := b.until(d, "started", func(s delivery.Status) bool {
		return len(s.Replicas) == 1 && s.Replicas[0].Phase == delivery.PhaseLoading
	}).Replicas[0]
	_, port, _ := strings.Cut(first.Address, ":")
	stranger, line := startHelper(t, grabSubcommand, port)
	if line != "listening "+port {
		t.Fatalf("the stranger says %q", line)
	}
	next := b.until(d, "moved to another port", func(s delivery.Status) bool {
		r := s.Replicas[0]
		return r.Address != "" && r.Address != first.Address && r.Phase == delivery.PhaseLoading
	})
	if p, err := procfs.Stat(stranger.Process.Pid); err != nil || p.Zombie() {
		t.Fatalf("the stranger was ended: %+v %v", p, err)
	}
	if next.LastFailure != nil || len(b.routed()) != 0 {
		t.Fatalf("it is no failure of the model, and the stranger is no endpoint: %+v %+v", next.LastFailure, b.routed())
	}
}

// Somebody takes every port that a replica is given: it says so, and is not
// started over and over.
func TestPortsThatAreTakenAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "slow", withCommand("exec sleep 1000"))
	b.apply(d)
	last, holder := "", ""
	for range 2 {
		st := b.until(d, "started anew", func(s delivery.Status) bool {
			return len(s.Replicas) == 1 && s.Replicas[0].Address != "" && s.Replicas[0].Address != last && s.Replicas[0].Phase == delivery.PhaseLoading
		})
		last = st.Replicas[0].Address
		_, port, _ := strings.Cut(last, ":")
		thief, _ := startHelper(t, grabSubcommand, port)
		holder = fmt.Sprintf("port %s was taken by another process (pid %d, uid %d)", port, thief.Process.Pid, os.Geteuid())
	}
	st := b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil })
	if st.Reason != delivery.PortTaken || st.LastFailure.Reason != delivery.PortTaken || !strings.Contains(st.Message, holder) {
		t.Fatalf("%s %q (%+v), want: %s", st.Reason, st.Message, st.LastFailure, holder)
	}
	b.target.mu.Lock()
	s := b.target.objects[d.Name].slots[0]
	failures, waits := s.failures, s.run != nil || s.retryAt.After(st.LastFailure.At)
	b.target.mu.Unlock()
	if failures != 1 || !waits {
		t.Fatalf("%d failures, it waits: %v", failures, waits)
	}
}

// What answers a probe must belong to the engine's user.
func TestProbesAskTheEngineOnly(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(server.Close)
	if err := (prober{base: server.URL, user: os.Geteuid() + 1}).health(t.Context(), "/health"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is answered by a process of uid %d", os.Geteuid())) {
		t.Errorf("somebody else's server: %v", err)
	}
	if err := (prober{base: server.URL, user: 0}).health(t.Context(), "/mine"); err != nil {
		t.Error(err)
	}
	if path := <-asked; path != "/mine" {
		t.Errorf("somebody else's server was asked for %s", path)
	}
}

// A server that is healthy but serves another model is not what was asked for.
func TestAnotherModelIsNotReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	// The simulated engine takes the last --model; the preset's own comes last,
	// so another name can only come from an engine that is not the preset's.
	d.Model.Engine, d.Model.Args = modelspec.EngineCustom, nil
	d.Model.Command = []string{engineCopy(t), "engine-simulated", "--port=${PORT}", "--model=other", "--load-time=1ms"}
	b.apply(d)
	st := b.untilReady(d) // a custom engine may call its model what it likes
	if st.Replicas[0].Engine != "other" {
		t.Fatalf("identity %q", st.Replicas[0].Engine)
	}
	client := prober{base: "http://" + st.Replicas[0].Address}
	plan := b.planFor(d)
	plan.NeedsName = true
	if id, err := client.identity(t.Context(), plan); err == nil || !strings.Contains(err.Error(), `serves ["other"] and not "demo"`) {
		t.Fatalf("identity %q %v", id, err)
	}
}

// engineCopy is the test binary where every user can run it.
func engineCopy(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	path := publicDir(t) + "/engine"
	if err := executable.Write(path, raw); err != nil {
		t.Fatal(err)
	}
	return path
}

// An engine that ignores SIGTERM is killed, with everything below it, when
// its grace is over.
func TestReleaseEndsTheStubborn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.KillGrace = 1e8 })
	d := desired("t", "stubborn", withArgs("--ignore-sigterm", "--stray-child"))
	obj := b.apply(d)
	b.untilReady(d)
	if n := len(family(t, b.target.runs.identity)); n != 3 {
		t.Fatalf("%d processes, want supervisor, engine and stray child", n)
	}
	b.delete(d, obj)
	b.untilGone(d)
	if left := family(t, b.target.runs.identity); len(left) != 0 {
		t.Fatalf("processes %v are left", left)
	}
}

// An engine whose main process ends is over, whatever it leaves running: also
// what left its group, and what hides its environment.
func TestDaemonsAreEndedWithTheirParent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mark := fmt.Sprint(100_000_000 + os.Getpid()) // seconds that nobody else sleeps
	count := `$(grep -las "^sleep.` + mark + `" /proc/[0-9]*/cmdline | wc -l)`
	d := desired("t", "daemon", withCommand("setsid sleep "+mark+" & env -i setsid sleep "+mark+" & until [ "+count+" = 2 ]; do :; done; exit 3"))
	b.apply(d)
	st := b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil })
	if left := sleepers(t, mark); len(left) != 0 {
		t.Fatalf("processes %v outlive their engine", left)
	}
	if st.LastFailure.ExitCode != 3 || st.Reason != delivery.ModelLoadFailed {
		t.Fatalf("status %+v", st)
	}
}

func sleepers(t *testing.T, mark string) []int {
	t.Helper()
	table, err := procfs.Table()
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for pid := range table {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(raw) == "sleep\x00"+mark+"\x00" {
			out = append(out, pid)
		}
	}
	return out
}

// As root, engines run as the tenant's own user, with a clean environment and
// without a way into the data directory.
func TestEnginesOfTenantsAreSeparated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tenants users of their own")
	}
	t.Setenv("MODELDOCK_TEST_SECRET", "hunter2")
	b := setup(t)
	script := `id -u; env; cat "$0"; ls "$0/.."; touch "$HOME/mine" && echo wrote; exec sleep 1000`
	secret := b.cfg.DataDir + "/instance"
	one := desired("team-a", "one", withCommand(script, secret))
	two := desired("team-b", "two", withCommand(script, secret))
	b.apply(one)
	b.apply(two)
	uids := map[string]bool{}
	for _, d := range []delivery.Desired{one, two} {
		var text string
		eventually(t, func() bool { text = b.log(d); return strings.Contains(text, "wrote") }, func() string { return text })
		if strings.Contains(text, "hunter2") || strings.Count(text, "Permission denied") < 2 {
			t.Errorf("%s is not separated:\n%s", d.Ref.ID, text)
		}
		for _, want := range []string{"MODELDOCK_RUN_ID=", "HOME=" + b.cfg.TempDir, "LANG=C.UTF-8", "CUDA_VISIBLE_DEVICES=-1"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", d.Ref.ID, want, text)
			}
		}
		for line := range strings.Lines(text) {
			if uid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				uids[fmt.Sprint(uid)] = true
			}
		}
	}
	if len(uids) != 2 || !uids["200000"] || !uids["200001"] {
		t.Fatalf("users %v", uids)
	}
	again, err := openUsers(b.cfg.DataDir + "/uids.json")
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := again.For("team-b"); err != nil || !uids[fmt.Sprint(uid)] {
		t.Fatalf("team-b is %d after a restart (%v)", uid, err)
	}
}
