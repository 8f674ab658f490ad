package route

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

var versionOne = Key{Owner: "a", Model: "m", Version: "v1"}

func replicaAt(uid string) traffic.Endpoint {
	return traffic.Endpoint{UID: uid, Owner: "a", Model: "m", Version: "v1", RequestID: "r1", Address: uid + ":80"}
}

// tick is a clock that moves with every look at it.
func tick() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.Unix(n.Add(1), 0) }
}

func acquire(t *testing.T, table *Table) *Lease {
	t.Helper()
	lease, ok := table.Acquire(versionOne, &Demand{})
	if !ok {
		t.Fatal("no endpoint")
	}
	return lease
}

func TestSetReplacesTheList(t *testing.T) {
	t.Parallel()
	table := New(tick())
	table.Set([]traffic.Endpoint{replicaAt("p1"), replicaAt("p2"), replicaAt("p2")})
	since := table.Seen("a", "r1")[0].Since
	other := replicaAt("p3")
	other.Model = "n"
	table.Set([]traffic.Endpoint{replicaAt("p1"), other})
	if list := table.Endpoints(); len(list) != 2 || list[0].UID != "p1" || list[1].UID != "p3" {
		t.Errorf("endpoints %+v", list)
	}
	if again := table.Seen("a", "r1")[0]; again.Since != since || again.EndpointUID != "p1" {
		t.Errorf("p1 was seen since %s, now %+v", since, again)
	}
	if table.Ready(Key{Owner: "a", Model: "x", Version: "v1"}) || !table.Ready(Key{Owner: "a", Model: "n", Version: "v1"}) {
		t.Error("wrong versions are ready")
	}
	moved := replicaAt("p1")
	moved.Version = "v2"
	table.Upsert(moved)
	if table.Ready(versionOne) {
		t.Error("a replica that changed its version still serves the old one")
	}
}

// TestRemovedReplicaDrains: no new requests, running ones finish and are seen.
func TestRemovedReplicaDrains(t *testing.T) {
	t.Parallel()
	table := New(tick())
	table.Upsert(replicaAt("p1"))
	first, second := acquire(t, table), acquire(t, table)
	table.Remove("p1")
	if _, ok := table.Acquire(versionOne, &Demand{}); ok {
		t.Fatal("a removed replica took a request")
	}
	seen := table.Seen("a", "r1")
	if table.InFlight("p1") != 2 || len(seen) != 1 || !seen[0].Draining || seen[0].InFlight != 2 {
		t.Errorf("in flight %d, seen %+v", table.InFlight("p1"), seen)
	}
	first.Release()
	first.Release() // twice is once
	if n := table.InFlightByKey()[versionOne]; n != 1 {
		t.Errorf("in flight %d, want 1", n)
	}
	// It comes back while one still runs, and drains again.
	table.Upsert(replicaAt("p1"))
	third := acquire(t, table)
	if n := table.InFlight("p1"); n != 2 {
		t.Errorf("in flight %d, want 2", n)
	}
	table.Remove("p1")
	second.Release()
	third.Release()
	if table.InFlight("p1") != 0 || len(table.Seen("a", "r1")) != 0 {
		t.Errorf("in flight %d, seen %+v", table.InFlight("p1"), table.Seen("a", "r1"))
	}
}

// TestNothingReachesARemovedReplica under concurrency: when Remove has
// returned, the count can only fall.
func TestNothingReachesARemovedReplica(t *testing.T) {
	t.Parallel()
	table := New(tick())
	var stop atomic.Bool
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for !stop.Load() {
				if lease, ok := table.Acquire(versionOne, &Demand{}); ok {
					lease.Release()
				}
			}
		})
	}
	for i := range 2000 {
		uid := fmt.Sprint("p", i)
		table.Upsert(replicaAt(uid))
		table.mu.Lock()
		r := table.replicas[uid]
		table.mu.Unlock()
		table.Remove(uid)
		before := r.load.running()
		if after := r.load.running(); after > before {
			t.Fatalf("%s: %d requests after it was removed with %d", uid, after, before)
		}
		if r.load.reserve(oneRequest, 0) {
			t.Fatalf("%s can be reserved after it was removed", uid)
		}
	}
	stop.Store(true)
	workers.Wait()
	if n := len(table.Seen("a", "r1")); n != 0 {
		t.Errorf("%d replicas still drain", n)
	}
}

func TestLoadIsSpread(t *testing.T) {
	t.Parallel()
	table := New(tick())
	const replicas, requests = 4, 400
	for i := range replicas {
		table.Upsert(replicaAt(fmt.Sprint("p", i)))
	}
	for range requests {
		acquire(t, table)
	}
	for i := range replicas {
		// Two choices keep the spread within a few of the mean (100); by
		// chance alone a deviation of 8.7 would be usual.
		if n := table.InFlight(fmt.Sprint("p", i)); n < 90 || n > 110 {
			t.Errorf("p%d has %d of %d requests", i, n, requests)
		}
	}
}

func TestPickTakesTheLessLoadedOfTwoDifferent(t *testing.T) {
	t.Parallel()
	loads := []int64{5, 1, 3}
	generator := rand.New(rand.NewPCG(1, 2))
	counts := make([]int, len(loads))
	for range 3000 {
		counts[pick(len(loads), func(i int) int64 { return loads[i] }, generator.IntN)]++
	}
	if counts[0] != 0 || counts[1] < 1800 || counts[2] < 800 {
		t.Errorf("picked %v times; the most loaded one must never win a pair", counts)
	}
	if got := pick(1, func(int) int64 { panic("not needed") }, func(int) int { panic("not needed") }); got != 0 {
		t.Errorf("of one, %d", got)
	}
}

func TestListenersHearWhatChanged(t *testing.T) {
	t.Parallel()
	table := New(tick())
	var heard []Key
	stop := table.OnChange(func(keys []Key) { heard = append(heard, keys...) })
	table.Upsert(replicaAt("p1"))
	table.Upsert(replicaAt("p1")) // nothing new
	table.Remove("p1")
	table.Remove("p1")
	if len(heard) != 2 || heard[0] != versionOne || heard[1] != versionOne {
		t.Errorf("heard %v", heard)
	}
	stop()
	table.Upsert(replicaAt("p2"))
	if len(heard) != 2 {
		t.Error("heard after the end of the subscription")
	}
}
