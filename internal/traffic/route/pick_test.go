package route

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"modeldock.io/internal/traffic"
)

// TestEveryReservationIsGivenBack draws requests, endings, failures and
// changes of the table: no replica ever runs more than it takes, and in the
// end nothing is in flight.
func TestEveryReservationIsGivenBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := New(tick())
		most := map[string]int{}
		for i := range rapid.IntRange(1, 5).Draw(t, "replicas") {
			e := replicaAt(fmt.Sprint("p", i))
			e.Parallel = rapid.IntRange(0, 3).Draw(t, "parallel")
			most[e.UID] = e.Parallel
			table.Upsert(e)
		}
		var held []*Lease
		tokens := map[*Lease]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				d := &Demand{Tokens: rapid.Int64Range(-1, 5000).Draw(t, "tokens"), Affinity: rapid.Uint64Range(0, 3).Draw(t, "affinity")}
				if l, ok := table.Acquire(versionOne, d); ok {
					held, tokens[l] = append(held, l), max(d.Tokens, 0)
				}
			case 3:
				if len(held) > 0 {
					held[0].Release()
					held[0].Release()
					delete(tokens, held[0])
					held = held[1:]
				}
			case 4:
				if len(held) > 0 {
					held[0].Unreached()
				}
			case 5:
				uid := fmt.Sprint("p", rapid.IntRange(0, 4).Draw(t, "which"))
				if _, known := most[uid]; known {
					table.Remove(uid)
					e := replicaAt(uid)
					e.Parallel = most[uid]
					table.Upsert(e)
				}
			}
			running, sum := map[string]int{}, map[string]int64{}
			for _, l := range held {
				running[l.Endpoint().UID]++
				sum[l.Endpoint().UID] += tokens[l]
			}
			for _, s := range table.Standings() {
				uid := s.Endpoint.UID
				if s.InFlight != running[uid] || s.Tokens != sum[uid] {
					t.Fatalf("%s counts %d requests of %d tokens, it has %d of %d", uid, s.InFlight, s.Tokens, running[uid], sum[uid])
				}
				if most[uid] > 0 && s.InFlight > most[uid] {
					t.Fatalf("%s runs %d of at most %d", uid, s.InFlight, most[uid])
				}
			}
		}
		for _, l := range held {
			l.Release()
		}
		for _, s := range table.Standings() {
			if s.InFlight != 0 || s.Tokens != 0 {
				t.Fatalf("in the end %s has %d requests of %d tokens", s.Endpoint.UID, s.InFlight, s.Tokens)
			}
		}
	})
}

// TestAffinityIsBounded: whatever the keys, no replica is taken for a prefix
// beyond 1.25 times the mean.
func TestAffinityIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cs := make([]candidate, rapid.IntRange(2, 12).Draw(t, "replicas"))
		total := 0
		for i := range cs {
			n := rapid.IntRange(0, 40).Draw(t, "running")
			total += n
			cs[i] = candidate{r: &replica{seed: hash([]byte{byte(i)})}, state: int64(n) * oneRequest}
		}
		i := hashed(cs, rapid.Uint64().Draw(t, "key")|1)
		if i < 0 {
			t.Fatal("none of the unsaturated was taken")
		}
		after := float64(runningIn(cs[i].state) + 1)
		if mean := float64(total+1) / float64(len(cs)); after > 1.25*mean+1 {
			t.Fatalf("%v on one replica, the mean is %v", after, mean)
		}
	})
}

// TestAffinityStays: a key keeps its replica when another one leaves.
func TestAffinityStays(t *testing.T) {
	t.Parallel()
	table := New(tick())
	for i := range 8 {
		table.Upsert(replicaAt(fmt.Sprint("p", i)))
	}
	home := func(key uint64) string {
		l, ok := table.Acquire(versionOne, &Demand{Affinity: key})
		if !ok {
			t.Fatal("no endpoint")
		}
		defer l.Release()
		return l.Endpoint().UID
	}
	before, used := map[uint64]string{}, map[string]int{}
	for key := range uint64(400) {
		key = mix(key) | 1
		before[key] = home(key)
		used[before[key]]++
		if again := home(key); again != before[key] {
			t.Fatalf("key %d went to %s, then to %s", key, before[key], again)
		}
	}
	if len(used) != 8 {
		t.Errorf("only %d of 8 replicas were used: %v", len(used), used)
	}
	table.Remove("p3")
	for key, uid := range before {
		if now := home(key); uid != "p3" && now != uid {
			t.Errorf("key %d moved from %s to %s although %s is there", key, uid, now, uid)
		}
	}
}

func TestPrefixKey(t *testing.T) {
	t.Parallel()
	long := make([]byte, PrefixLength+100)
	if PrefixKey(long[:PrefixLength-1]) != 0 {
		t.Error("a short prompt has an affinity")
	}
	key := PrefixKey(long)
	long[PrefixLength] = 'x'
	if PrefixKey(long) != key {
		t.Error("what comes after the prefix counts")
	}
	long[PrefixLength-1] = 'x'
	if PrefixKey(long) == key || key == 0 || SessionKey("a") == SessionKey("b") {
		t.Error("different prefixes or sessions have one key")
	}
}

// TestSimultaneousRequestsSpread: selection and reservation are one step, so a
// burst does not pile up on whoever looked idle.
func TestSimultaneousRequestsSpread(t *testing.T) {
	t.Parallel()
	table := New(tick())
	for i := range 4 {
		table.Upsert(replicaAt(fmt.Sprint("p", i)))
	}
	start, leases := make(chan struct{}), make(chan *Lease, 100)
	for range 100 {
		go func() {
			<-start
			l, _ := table.Acquire(versionOne, &Demand{})
			leases <- l
		}()
	}
	close(start)
	for range 100 {
		if l := <-leases; l == nil {
			t.Fatal("no endpoint")
		}
	}
	for _, s := range table.Standings() {
		if s.InFlight < 19 || s.InFlight > 31 {
			t.Errorf("%s has %d of 100 requests on 4 replicas", s.Endpoint.UID, s.InFlight)
		}
	}
}

func TestClassAndAvoidance(t *testing.T) {
	t.Parallel()
	table := New(tick())
	for uid, card := range map[string]string{"p1": "NVIDIA A100-SXM4-80GB", "p2": "NVIDIA H200", "p3": ""} {
		e := replicaAt(uid)
		e.CardModel = card
		table.Upsert(e)
	}
	for range 20 {
		l, ok := table.Acquire(versionOne, &Demand{Class: "h200"})
		if !ok || l.Endpoint().UID != "p2" {
			t.Fatalf("class h200 went to %+v", l)
		}
	}
	if _, ok := table.Acquire(versionOne, &Demand{Class: "B300"}); ok {
		t.Error("a class that nobody has was found")
	}
	for class, want := range map[string]bool{"b300": false, "h200": true} {
		if models, found := table.Cards(versionOne, class); found != want || !slices.Equal(models, []string{"NVIDIA A100-SXM4-80GB", "NVIDIA H200"}) {
			t.Errorf("class %s is there: %t, among %v", class, found, models)
		}
	}
	d := &Demand{}
	for range 3 {
		l, ok := table.Acquire(versionOne, d)
		if !ok {
			t.Fatal("no endpoint")
		}
		d.Avoid(l)
	}
	if l, ok := table.Acquire(versionOne, d); ok || !d.Choosy() {
		t.Fatalf("went back to %s, which had failed the request", l.Endpoint().UID)
	}
	// Published anew it is another one: a container that was restarted.
	table.Remove("p1")
	table.Upsert(replicaAt("p1"))
	if l, ok := table.Acquire(versionOne, d); !ok || l.Endpoint().UID != "p1" {
		t.Error("a replica that came back is still avoided")
	}
}

func TestUnknownParallelismIsBoundedForQueued(t *testing.T) {
	t.Parallel()
	table := New(tick())
	table.Upsert(replicaAt("p1"))
	for range unknownParallel {
		if _, ok := table.Acquire(versionOne, &Demand{Queued: true}); !ok {
			t.Fatal("refused too early")
		}
	}
	if _, ok := table.Acquire(versionOne, &Demand{Queued: true}); ok {
		t.Error("all who waited run into the first replica")
	}
	if _, ok := table.Acquire(versionOne, &Demand{}); !ok {
		t.Error("a replica without a known bound refused a newcomer")
	}
}

func BenchmarkAcquire(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := New(tick())
			for i := range n {
				table.Upsert(traffic.Endpoint{UID: fmt.Sprint("p", i), Owner: "a", Model: "m", Version: "v1"})
			}
			b.ReportAllocs()
			for b.Loop() {
				l, _ := table.Acquire(versionOne, &Demand{Tokens: 100, Affinity: 7})
				l.Release()
			}
		})
	}
}
