package route

import (
	"testing"
	"time"
)

// clocked is a table whose clock the test moves.
func clocked(uids ...string) (*Table, *time.Time) {
	now := time.Unix(1000, 0)
	table := New(func() time.Time { return now })
	for _, uid := range uids {
		table.Upsert(replicaAt(uid))
	}
	return table, &now
}

func (t *Table) ask() (*Lease, bool) { return t.Acquire(versionOne, &Demand{}) }

// TestUnreachableReplicaRests: one refused connection takes it out, one
// request at a time tries it again, and an answer brings it back.
func TestUnreachableReplicaRests(t *testing.T) {
	t.Parallel()
	table, now := clocked("p1")
	l, _ := table.ask()
	l.Unreached()
	l.Release()
	if _, ok := table.ask(); ok {
		t.Fatal("a replica that refused a connection gets the next request at once")
	}
	*now = now.Add(firstRest)
	probe, ok := table.ask()
	if !ok {
		t.Fatal("no probe after the rest")
	}
	if _, ok := table.ask(); ok {
		t.Fatal("a second request beside the probe")
	}
	probe.Unreached()
	probe.Release()
	*now = now.Add(firstRest)
	if _, ok := table.ask(); ok {
		t.Fatal("the rest did not get longer")
	}
	*now = now.Add(firstRest)
	if probe, ok = table.ask(); !ok {
		t.Fatal("no second probe")
	}
	probe.Answered()
	if _, ok := table.ask(); !ok {
		t.Error("an answer did not close the breaker while the probe still runs")
	}
	probe.Release()
}

// TestProbeWithoutAVerdict: a caller who leaves gives the probe back.
func TestProbeWithoutAVerdict(t *testing.T) {
	t.Parallel()
	table, now := clocked("p1")
	l, _ := table.ask()
	l.Unreached()
	l.Release()
	*now = now.Add(firstRest)
	for range 3 {
		probe, ok := table.ask()
		if !ok {
			t.Fatal("the probe was lost with a caller who left")
		}
		probe.Release()
	}
}

// TestNewLifeHasNoPast: a replica that comes back, or has another address,
// does not inherit the rest of its former process.
func TestNewLifeHasNoPast(t *testing.T) {
	t.Parallel()
	table, _ := clocked("p1")
	running, _ := table.ask()
	defer running.Release()
	for _, renew := range []func(){
		func() { table.Remove("p1"); table.Upsert(replicaAt("p1")) },
		func() { e := replicaAt("p1"); e.Address = "elsewhere:80"; table.Upsert(e) },
	} {
		running.Unreached()
		if _, ok := table.ask(); ok {
			t.Fatal("setup: the breaker is not open")
		}
		renew()
		l, ok := table.ask()
		if !ok {
			t.Fatal("a new process is not asked because its predecessor could not be reached")
		}
		l.Release()
	}
}

// TestErrorsOnlyMakeOthersPreferred: a replica that answers with errors is
// avoided, but used if there is no other; callers' faults never count.
func TestErrorsOnlyMakeOthersPreferred(t *testing.T) {
	t.Parallel()
	table, _ := clocked("p1", "p2")
	failing := func(uid string, n int) {
		for range n {
			table.replicas[uid].load.breaker.failed(table.now(), false, false)
		}
	}
	failing("p1", tripAfter-1)
	table.replicas["p1"].load.breaker.succeeded() // a 400 is an answer
	failing("p1", tripAfter-1)
	if table.Standings()[0].Open {
		t.Fatal("failures that were not in a row opened the breaker")
	}
	failing("p1", 1)
	for range 20 {
		if l, _ := table.ask(); l.Endpoint().UID != "p2" {
			t.Fatal("a failing replica is used beside a good one")
		}
	}
	failing("p2", tripAfter)
	if _, ok := table.ask(); !ok {
		t.Error("two replicas that answer with errors are no replicas at all")
	}
}

func TestRestIsBounded(t *testing.T) {
	t.Parallel()
	if restFor(0) != firstRest || restFor(2) != 2*firstRest || restFor(1000) != maxRest {
		t.Error(restFor(0), restFor(2), restFor(1000))
	}
}

// TestSignals: what an engine reports counts while it is fresh, and its
// absence is no sign of rest.
func TestSignals(t *testing.T) {
	t.Parallel()
	table, now := clocked("p1", "p2")
	report := func(uid string, s Signal) {
		s.At, s.Period = *now, 5*time.Second
		table.Report(uid, s)
	}
	served := func() map[string]int {
		counts := map[string]int{}
		for range 60 {
			l, ok := table.ask()
			if !ok {
				t.Fatal("no endpoint")
			}
			counts[l.Endpoint().UID]++
			l.Release()
		}
		return counts
	}
	report("p1", Signal{Waiting: Known(3)})
	report("gone", Signal{Waiting: Known(3)})
	if got := served(); got["p1"] != 0 {
		t.Errorf("an engine with a queue of its own got %v", got)
	}
	report("p1", Signal{KVUsage: Known(0.85)})
	if got := served(); got["p1"] != 0 {
		t.Errorf("a nearly full cache got %v", got)
	}
	*now = now.Add(10 * time.Second)
	if got := served(); got["p1"] == 0 || got["p2"] == 0 {
		t.Errorf("a signal of two periods ago still decides: %v", got)
	}
	report("p1", Signal{Waiting: Known(1)})
	report("p2", Signal{KVUsage: Known(1)})
	if got := served(); got["p1"]+got["p2"] != 60 {
		t.Errorf("saturation of all refused requests: %v", got)
	}
}

func TestRetryBudget(t *testing.T) {
	t.Parallel()
	var b RetryBudget
	now := time.Unix(1000, 0)
	for range 500 {
		b.Request(now)
	}
	n := 0
	for b.Retry(now) {
		n++
	}
	if n != budgetFloor+100 {
		t.Errorf("%d retries of 500 requests", n)
	}
	if now = now.Add(budgetWindow); !b.Retry(now) {
		t.Error("the next window has no budget")
	}
}
