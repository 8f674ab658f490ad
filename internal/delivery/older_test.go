package delivery_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// Once Halt has returned no round is under way, and none begins until Resume.
func TestHaltWaitsForRoundsUnderWay(t *testing.T) {
	t.Parallel()
	d := &delivery.Doubt{}
	end, ok := d.Begin()
	if !ok {
		t.Fatal("a round may not begin")
	}
	halted := make(chan struct{})
	go func() { d.Halt("a reason"); close(halted) }()
	for d.Halted() == "" { // set before Halt waits
		time.Sleep(time.Millisecond)
	}
	select {
	case <-halted:
		t.Fatal("Halt did not wait for the round")
	default:
	}
	end()
	<-halted
	if _, ok := d.Begin(); ok || d.Why() != "a reason" {
		t.Errorf("a round began although %q", d.Why())
	}
	d.Resume()
	if end, ok := d.Begin(); !ok || d.Why() != "" {
		t.Errorf("nothing begins after Resume: %q", d.Why())
	} else {
		end()
	}
}

// haltable wires loops that ask the bench's doubt, with a stamp of their own.
func (b *bench) haltable(stamp delivery.Stamper) {
	b.relay = delivery.NewRelay(delivery.RelayConfig{
		Outbox: b.ledger, Bindings: b.ledger, Target: b.target, Ledger: b.instance, Owner: "relay",
		Random: func() float64 { return 0 }, Doubt: b.doubt, Stamp: stamp,
	})
}

func TestNothingIsDoneWhileHalted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.haltable(nil)
	released := b.reserve("team-a", "released", 1)
	b.deliver()
	b.release(released)
	b.deliver()
	b.target.lose(released)
	fresh := b.reserve("team-a", "fresh", 1)
	b.doubt.Halt("the ledger may be older")
	for range 2 {
		if n := len(b.deliver().Steps) + len(b.settle().Steps) + len(b.reconcile().Steps); n != 0 {
			t.Errorf("%d steps were done while halted", n)
		}
	}
	if got := b.state(released); got != budget.Reserved {
		t.Errorf("credited while halted: %s", got)
	}
	b.doubt.Resume()
	b.deliver()
	b.settle()
	if got := b.state(released); got != budget.Released {
		t.Errorf("not credited after the standstill: %s", got)
	}
	if st, _ := b.target.Observe(t.Context(), fresh); !st.Exists {
		t.Error("not delivered after the standstill")
	}
	b.clean("team-a", 1)
}

// The stamp comes before the target hears of anything, covers what is
// delivered, and where it cannot be made nothing is delivered.
func TestStampedBeforeDelivered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var stamped int64
	broken := errors.New("disk full")
	fail := true
	b.haltable(func(ctx context.Context) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		if fail {
			return 0, broken
		}
		_, seq, err := b.ledger.Identity(ctx)
		stamped = seq
		return seq, err
	})
	ref := b.reserve("team-a", "x", 1)
	b.deliver()
	if st, _ := b.target.Observe(t.Context(), ref); st.Exists {
		t.Fatal("delivered without a stamp")
	}
	rows, err := b.ledger.Intents(t.Context(), ref)
	b.must(err)
	if !strings.Contains(rows[0].LastError, "disk full") {
		t.Errorf("the row's error is %q", rows[0].LastError)
	}
	fail = false
	b.pass(time.Minute)
	b.deliver()
	entries, err := b.ledger.Journal(t.Context(), ref)
	b.must(err)
	if st, _ := b.target.Observe(t.Context(), ref); !st.Exists || stamped < entries[0].Seq {
		t.Errorf("exists %v, stamped %d for entry %d", st.Exists, stamped, entries[0].Seq)
	}
}

// Every way in which an older ledger and the world differ, and what accepting
// the ledger does about it.
func TestCompareAndAccept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refs := map[string]budget.Ref{}
	for _, id := range []string{"same", "missing", "other-uid", "newer", "undelivered"} {
		refs[id] = b.reserve("team-a", id, 1)
		if id != "undelivered" {
			b.deliver()
		}
	}
	uid := func(ref budget.Ref) string {
		t.Helper()
		st, err := b.target.Observe(t.Context(), ref)
		b.must(err)
		return st.Object.UID
	}
	otherBound, newerBound, sameUID := uid(refs["other-uid"]), uid(refs["newer"]), uid(refs["same"])
	b.target.lose(refs["missing"])
	b.target.change(refs["other-uid"], func(st *delivery.Status) { st.Object.UID = "another" })
	b.target.change(refs["newer"], func(st *delivery.Status) { st.Generation = 7 })
	waiting := budget.Ref{Tenant: "team-b", ID: "waiting"}
	for _, ref := range []budget.Ref{{Tenant: "team-b", ID: "unknown"}, waiting, refs["undelivered"]} {
		_, err := b.target.Apply(t.Context(), delivery.Desired{Ref: ref, Ledger: b.instance, Name: delivery.ObjectName(ref), Generation: 1, Funded: 1})
		b.must(err)
	}
	found, err := b.reconciler.Compare(t.Context())
	b.must(err)
	drops := map[string]bool{}
	for _, d := range found {
		drops[d.Ref.ID] = d.Drops()
	}
	want := map[string]bool{"missing": false, "other-uid": true, "newer": true, "undelivered": false, "unknown": true, "waiting": true}
	if len(drops) != len(want) {
		t.Errorf("differences are %v, want %v", drops, want)
	}
	for id, drop := range want {
		if got, there := drops[id]; !there || got != drop {
			t.Errorf("%s: found %v, dropped %v; want dropped %v", id, there, got, drop)
		}
	}
	if delivery.CountDrops(found) != 4 || !strings.Contains(delivery.Few(found), "and 3 more") {
		t.Errorf("%d drops; in words: %s", delivery.CountDrops(found), delivery.Few(found))
	}

	b.doubt.Halt("older")
	refused := errors.New("no audit")
	if _, err := b.reconciler.Accept(t.Context(), func(delivery.Difference) error { return refused }); !errors.Is(err, refused) {
		t.Fatalf("accepted without an audit: %v", err)
	}
	if uid(waiting) == "" {
		t.Fatal("deleted without an audit")
	}
	var told []string
	_, err = b.reconciler.Accept(t.Context(), func(d delivery.Difference) error { told = append(told, d.Ref.ID); return nil })
	b.must(err)
	if len(told) != 4 {
		t.Errorf("told of %v", told)
	}
	b.doubt.Resume()
	b.deliver()
	left, err := b.reconciler.Compare(t.Context())
	b.must(err)
	if len(left) != 0 {
		t.Errorf("after the decision there is still %s", delivery.Few(left))
	}
	if uid(refs["same"]) != sameUID || uid(refs["other-uid"]) != otherBound || uid(refs["newer"]) != newerBound {
		t.Error("not delivered again under the bound identity")
	}
	b.clean("team-a", 5)
}
