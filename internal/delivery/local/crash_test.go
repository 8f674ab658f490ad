package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/device"
)

const (
	childSubcommand = "test-modeldock"
	grabSubcommand  = "test-grab-port"
)

type childConfig struct {
	DataDir, TempDir string
	Desired          delivery.Desired
	Sleep            bool // put it to sleep before anything is said
}

// childMain is a ModelDock of its own process, which a test can kill. It says
// "ready ADDRESS", or "asleep ADDRESS", and then waits for its end.
func childMain(raw string) int {
	var c childConfig
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		fmt.Println("error", err)
		return 1
	}
	inv, err := device.Simulated("node-1", "2x24576")
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	target, err := New(Config{
		DataDir: c.DataDir, TempDir: c.TempDir, Executable: self, Node: "node-1", Ledger: ledger, Inventory: inv,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), AsleepMiB: 100_000, Memory: plenty,
		OnEndpoints: func(e []Endpoint) {
			if len(e) > 0 && !c.Sleep {
				fmt.Println("ready", e[0].Address)
			}
		},
	})
	if err == nil {
		err = target.Start(context.Background())
	}
	if err == nil {
		_, err = target.Apply(context.Background(), c.Desired)
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	if c.Sleep {
		sleepInChild(target, c.Desired)
	}
	for {
		time.Sleep(time.Hour)
	}
}

// sleepInChild has the one replica sleep and says so.
func sleepInChild(target *Target, d delivery.Desired) {
	for asked := false; ; time.Sleep(10 * time.Millisecond) {
		st, err := target.Observe(context.Background(), d.Ref)
		if err == nil && st.Ready == 1 && !asked {
			asked = true
			err = target.Scale(context.Background(), d.Ref, delivery.ScalingStep{From: 1, To: 0})
		}
		if err != nil {
			fmt.Println("error", err)
		}
		if st.Sleeping() == 1 {
			fmt.Println("asleep", st.Replicas[0].Address)
			return
		}
	}
}

// grabMain is a stranger that listens on a port.
func grabMain(port string) int {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("listening", l.Addr().(*net.TCPAddr).Port)
	for {
		time.Sleep(time.Hour)
	}
}

// startHelper runs the test binary as something else and returns the first
// line that it says.
func startHelper(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(ownProgram(t), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("%v said %q (%v)", args[0], line, err)
	}
	return cmd, strings.TrimSpace(line)
}

// C151: ModelDock is killed with -9. Its model, which ignores SIGTERM, and a
// grandchild that left the process group die with it; after the next start
// there is exactly one runner again, of the same object.
func TestKilledModelDockTakesItsModelsAlong(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	d := desired("team-a", "demo", withArgs("--ignore-sigterm", "--stray-child"))
	raw, err := json.Marshal(childConfig{cfg.DataDir, cfg.TempDir, d, false})
	if err != nil {
		t.Fatal(err)
	}
	child, line := startHelper(t, childSubcommand, string(raw))
	address, _ := strings.CutPrefix(line, "ready ")
	chat(t, address, "demo")
	identity, err := openIdentity(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(family(t, identity)); n != 3 {
		t.Fatalf("%d processes run, want the supervisor, the model and its stray child", n)
	}
	before, err := (&objectStore{cfg.DataDir + "/objects"}).Read(d.Name)
	if err != nil {
		t.Fatal(err)
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, func() bool { return len(family(t, identity)) == 0 }, func() string {
		return fmt.Sprintf("processes %v outlive their ModelDock", family(t, identity))
	})

	b := &bench{t: t, cfg: cfg}
	b.start()
	st := b.untilReady(d)
	if st.Object.UID != before.UID {
		t.Fatalf("object %s became %s", before.UID, st.Object.UID)
	}
	if n := len(family(t, identity)); n != 3 {
		t.Fatalf("%d processes run after the restart, want 3", n)
	}
}

// A sleeping engine, which ignores SIGTERM, ends with its ModelDock as one that
// serves does; after the next start nothing sleeps and nothing is held.
func TestKilledModelDockTakesItsSleepersAlong(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.AsleepMiB = 100_000
	d := desired("team-a", "demo", between(0, 1), asleep(1), withArgs("--ignore-sigterm", "--stray-child"))
	raw, err := json.Marshal(childConfig{cfg.DataDir, cfg.TempDir, d, true})
	if err != nil {
		t.Fatal(err)
	}
	child, line := startHelper(t, childSubcommand, string(raw))
	address, ok := strings.CutPrefix(line, "asleep ")
	if !ok || engineSays(t, address, "modeldock_simulated_asleep") != "1" {
		t.Fatalf("it says %q", line)
	}
	identity, err := openIdentity(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(family(t, identity)); n != 3 {
		t.Fatalf("%d processes, want the supervisor, the engine and its stray child", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, func() bool { return len(family(t, identity)) == 0 }, func() string {
		return fmt.Sprintf("processes %v outlive their ModelDock", family(t, identity))
	})
	b := &bench{t: t, cfg: cfg}
	b.start()
	if st := b.status(d); !st.Asleep() || len(st.Replicas) != 0 || b.held() != 0 {
		t.Errorf("after the start: %+v, %d MiB held", st, b.held())
	}
	if err := b.scale(d.Ref, 0, 1); err != nil {
		t.Fatal(err)
	}
	b.untilReady(d)
}

// C151: the supervisor is killed together with its ModelDock, so that nobody
// is left to end the grandchild: the next start finds it by its run id, and
// nobody else is touched.
func TestLeftoversAreFoundAtTheNextStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	d := desired("team-a", "demo", withArgs("--stray-child"))
	raw, err := json.Marshal(childConfig{cfg.DataDir, cfg.TempDir, d, false})
	if err != nil {
		t.Fatal(err)
	}
	child, _ := startHelper(t, childSubcommand, string(raw))
	bystander, _ := startHelper(t, grabSubcommand, "0")
	identity, err := openIdentity(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	supervisors := childrenOf(t, child.Process.Pid)
	if len(supervisors) != 1 {
		t.Fatalf("supervisors %v, want one", supervisors)
	}
	for _, pid := range append(supervisors, child.Process.Pid) {
		if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
			t.Fatalf("cannot kill %d", pid)
		}
	}
	_ = child.Wait()
	eventually(t, func() bool { return len(family(t, identity)) == 1 }, func() string {
		return fmt.Sprintf("processes %v: the stray child alone should be left", family(t, identity))
	})
	stray := family(t, identity)[0]

	b := &bench{t: t, cfg: cfg}
	b.start()
	if p, err := procfs.Stat(stray); err == nil && !p.Zombie() {
		t.Fatalf("leftover %d still runs", stray)
	}
	if p, err := procfs.Stat(bystander.Process.Pid); err != nil || p.Zombie() {
		t.Fatalf("a bystander was ended: %+v %v", p, err)
	}
	b.untilReady(d)
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	table, err := procfs.Table()
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, p := range table {
		if p.PPID == pid && !p.Zombie() {
			out = append(out, p.PID)
		}
	}
	return out
}

// A supervisor that is killed alone is replaced, and what it left is ended
// before its card is given away.
func TestKilledSupervisorIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo", withArgs("--stray-child"))
	b.apply(d)
	first := b.untilReady(d).Replicas[0]
	table, err := procfs.Table()
	if err != nil {
		t.Fatal(err)
	}
	supervisor := table[first.PID].PPID
	if p, err := os.FindProcess(supervisor); err != nil || p.Kill() != nil {
		t.Fatalf("cannot kill the supervisor %d", supervisor)
	}
	st := b.until(d, "replaced", func(s delivery.Status) bool {
		return s.Ready == 1 && s.Replicas[0].UID != first.UID
	})
	if st.Replicas[0].PID == first.PID || len(family(t, b.target.runs.identity)) != 3 {
		t.Fatalf("processes %v after the replacement", family(t, b.target.runs.identity))
	}
}
