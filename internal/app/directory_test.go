package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
)

// observed is a target that only observes.
type observed struct {
	delivery.Target
	status func(ref budget.Ref) (delivery.Status, error)
}

func (o observed) Observe(_ context.Context, ref budget.Ref) (delivery.Status, error) {
	return o.status(ref)
}

// counted counts refreshes by their first read, and may fail them.
type counted struct {
	*sqlledger.Ledger
	reads    atomic.Int64
	bindings atomic.Int64
	away     atomic.Bool
	hold     chan struct{} // nil: does not hold
	listed   func()        // nil: nobody is told after each list
}

func (c *counted) List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error) {
	out, err := c.Ledger.List(ctx, f)
	if c.listed != nil {
		c.listed()
	}
	return out, err
}

func (c *counted) Waiting(ctx context.Context, most int) (budget.Waiters, error) {
	out, err := c.Ledger.Waiting(ctx, most)
	if c.listed != nil {
		c.listed()
	}
	return out, err
}

func (c *counted) LiveBindings(ctx context.Context) (map[budget.Ref]budget.Binding, error) {
	c.bindings.Add(1)
	return c.Ledger.LiveBindings(ctx)
}

func (c *counted) Keys(ctx context.Context) ([]budget.APIKey, error) {
	c.reads.Add(1)
	if c.hold != nil {
		<-c.hold
	}
	if c.away.Load() {
		return nil, errors.Join(errors.New("disk gone"), budget.ErrUnavailable)
	}
	return c.Ledger.Keys(ctx)
}

func newTestDirectory(t *testing.T) (*directory, *counted) {
	t.Helper()
	l := &counted{Ledger: openLedger(t, t.TempDir())}
	if _, err := l.SetPool(t.Context(), "default", 8); err != nil {
		t.Fatal(err)
	}
	if _, err := l.SetQuota(t.Context(), "team-a", 1); err != nil {
		t.Fatal(err)
	}
	target := observed{status: func(ref budget.Ref) (delivery.Status, error) { return delivery.Status{Ref: ref}, nil }}
	return newDirectory(l, target, time.Now, slog.New(slog.DiscardHandler)), l
}

func submit(t *testing.T, l budget.Ledger, id string) {
	t.Helper()
	_, err := l.Submit(t.Context(), budget.Submission{Ref: budget.Ref{Tenant: "team-a", ID: id}, Cost: 1, Pool: "default", TTL: time.Hour, Model: modelspec.Default(id)})
	if err != nil {
		t.Fatal(err)
	}
}

// delivered binds what was reserved to objects, which the directory asks about.
func delivered(t *testing.T, l budget.Ledger) {
	t.Helper()
	intents, err := l.Claim(t.Context(), "relay", 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range intents {
		name := delivery.ObjectName(in.Ref)
		if err := l.Delivered(t.Context(), in, budget.Object{Namespace: "models", Name: name, UID: "uid-" + in.ID}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSnapshotHoldsKeysGrantsAndModels(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	ctx := t.Context()
	submit(t, l, "one")
	submit(t, l, "two")
	if _, err := l.Admit(ctx, 0); err != nil {
		t.Fatal(err)
	}
	delivered(t, l)
	_, live := budget.MintKey(budget.RoleTenant, "team-a", time.Now(), 0)
	_, dead := budget.MintKey(budget.RoleTenant, "team-a", time.Now().Add(-time.Hour), time.Minute)
	_, gone := budget.MintKey(budget.RoleAdmin, "", time.Now(), 0)
	_, longDead := budget.MintKey(budget.RoleTenant, "team-a", time.Now().Add(-26*time.Hour), time.Hour)
	_, deadAndGone := budget.MintKey(budget.RoleTenant, "team-a", time.Now().Add(-time.Hour), time.Minute)
	for _, k := range []budget.APIKey{live, dead, gone, longDead, deadAndGone} {
		if err := l.CreateKey(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	_, granted := l.PutGrant(ctx, budget.Grant{Owner: "team-a", Model: "one", Grantee: "team-b", At: time.Now()}, false)
	for _, end := range []struct {
		model    string
		declined bool
	}{{"back", false}, {"unwanted", true}} {
		_, put := l.PutGrant(ctx, budget.Grant{Owner: "team-a", Model: end.model, Grantee: "team-b"}, false)
		_, ended := l.DeleteGrant(ctx, "team-a", end.model, "team-b", end.declined)
		granted = errors.Join(granted, put, ended)
	}
	if err := errors.Join(l.RevokeKey(ctx, gone.ID), l.RevokeKey(ctx, deadAndGone.ID), granted); err != nil {
		t.Fatal(err)
	}
	d.target = observed{status: func(ref budget.Ref) (delivery.Status, error) {
		return delivery.Status{Ref: ref, Exists: true, Asked: 1, Reason: delivery.ModelLoadFailed, LastFailure: &delivery.Failure{Reason: delivery.ModelLoadFailed}}, nil
	}}
	told := 0
	d.changed = func() { told++ }
	if err := d.refresh(ctx); err != nil {
		t.Fatal(err)
	}
	s := d.snapshot()
	// The gateway judges the expiry, and says when it was.
	if len(s.Keys) != 2 || s.Keys[live.ID].Tenant != "team-a" || s.Keys[live.ID].Admin || s.Keys[dead.ID].ExpiresAt.Unix() != dead.ExpiresAt.Unix() {
		t.Errorf("keys: %v", s.Keys)
	}
	if _, ok := s.Grants[traffic.GrantKey{Owner: "team-a", Model: "one", Grantee: "team-b"}]; !ok || len(s.Owned["team-a"]) != 2 {
		t.Errorf("grants %v, owned %v", s.Grants, s.Owned)
	}
	if _, ok := s.TakenBack[traffic.GrantKey{Owner: "team-a", Model: "back", Grantee: "team-b"}]; !ok || len(s.TakenBack) != 1 {
		t.Errorf("taken back: %v", s.TakenBack)
	}
	if len(s.Models) != 2 || s.Models[0].Name != "one" || s.Models[0].Pending || s.Models[0].Failure != "ModelLoadFailed" ||
		s.Models[1].Name != "two" || !s.Models[1].Pending || s.Models[1].Failure != "" {
		t.Errorf("models: %+v", s.Models)
	}
	if told != 1 || s.Version != 1 {
		t.Errorf("told %d times of version %d", told, s.Version)
	}
	// A request that waits for long is told so at once.
	d.clock = func() time.Time { return time.Now().Add(pendingGrace + time.Second) }
	if err := d.refresh(ctx); err != nil || d.snapshot().Models[1].Failure == "" {
		t.Errorf("%v: %+v", err, d.snapshot().Models[1])
	}
}

// One tenant's waiting models push out no other tenant's, and where some of its
// own are left out the snapshot says so.
func TestSnapshotSharesWaitingModels(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	d.mostPending = 10
	for i := range 20 {
		submit(t, l, fmt.Sprint("a", i))
	}
	_, err := l.Submit(t.Context(), budget.Submission{Ref: budget.Ref{Tenant: "team-b", ID: "x4"}, Cost: 1, Pool: "default", TTL: time.Hour, Model: modelspec.Default("x4")})
	if err = errors.Join(err, d.refresh(t.Context())); err != nil {
		t.Fatal(err)
	}
	s, of := d.snapshot(), map[string]int{}
	for _, m := range s.Models {
		of[m.Owner]++
	}
	if _, crowded := s.Crowded["team-a"]; of["team-a"] != 9 || of["team-b"] != 1 || !crowded || len(s.Crowded) != 1 {
		t.Errorf("models in the snapshot: %v, crowded: %v", of, s.Crowded)
	}
}

// A request that is admitted while the snapshot is read is in it once.
func TestSnapshotHoldsWhatIsAdmittedMeanwhile(t *testing.T) {
	t.Parallel()
	for after := range 3 {
		d, l := newTestDirectory(t)
		submit(t, l, "one")
		lists := 0
		l.listed = func() {
			if lists++; lists == after {
				if _, err := l.Admit(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}
		}
		if err := d.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := d.snapshot(); len(s.Models) != 1 || s.Models[0].Pending == (after == 1) {
			t.Errorf("admitted after list %d: %+v", after, s.Models)
		}
	}
}

func TestRefreshSinceIsShared(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	since := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := d.refreshSince(t.Context(), since); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := l.reads.Load(); n != 1 {
		t.Errorf("50 callers cost %d refreshes", n)
	}
	if d.snapshot().At.Before(since) {
		t.Error("the snapshot is older than asked for")
	}
}

// Callers of unknown models, one after another, are bounded to a rate.
func TestRefreshSinceIsBounded(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"while it works": false, "while the ledger is away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, l := newTestDirectory(t)
			l.away.Store(away)
			start := time.Now()
			for range 5 {
				if err := d.refreshSince(t.Context(), time.Now()); (err != nil) != away {
					t.Fatal(err)
				}
			}
			if n, most := l.reads.Load(), int64(time.Since(start)/feed.RefreshPause)+1; n > most {
				t.Errorf("%d refreshes where %d are allowed", n, most)
			}
		})
	}
}

// While the ledger is away, callers that asked together fail together.
func TestFailedRefreshIsShared(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	if err := d.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := l.reads.Load()
	good := d.snapshot()
	l.away.Store(true)
	since := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := d.refreshSince(t.Context(), since); !errors.Is(err, budget.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	if n := l.reads.Load() - before; n != 1 {
		t.Errorf("20 callers cost %d refreshes", n)
	}
	if d.snapshot() != good {
		t.Error("the last snapshot was given up")
	}
	l.away.Store(false)
	if err := d.refreshSince(t.Context(), time.Now()); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// A caller who leaves neither waits for its turn nor spoils it for others.
func TestRefreshSinceEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	l.hold = make(chan struct{})
	first := make(chan error, 1)
	go func() { first <- d.refreshSince(context.Background(), time.Now()) }()
	for l.reads.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := d.refreshSince(gone, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(l.hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Only what keeps a model from ever loading sends its callers away. One crash
// of a model that was ready is over in a second.
func TestOnlyLastingFailuresFailWaiters(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	submit(t, l, "one")
	if _, err := l.Admit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	delivered(t, l)
	for _, c := range []struct {
		now, last delivery.Reason
		ready     int
		want      string
	}{
		{delivery.Loading, delivery.Crashed, 0, ""},
		{delivery.NoFragmentFits, delivery.ModelLoadFailed, 0, ""},
		{delivery.ModelLoadFailed, delivery.ModelLoadFailed, 0, "ModelLoadFailed"},
		{delivery.ProgressDeadlineExceeded, delivery.ProgressDeadlineExceeded, 0, "ProgressDeadlineExceeded"},
		{delivery.CrashLooping, delivery.CrashLooping, 0, "CrashLooping"},
		{delivery.CrashLooping, delivery.CrashLooping, 1, ""},
	} {
		d.target = observed{status: func(ref budget.Ref) (delivery.Status, error) {
			return delivery.Status{Ref: ref, Exists: true, Asked: 1, Ready: c.ready, Reason: c.now, LastFailure: &delivery.Failure{Reason: c.last}}, nil
		}}
		if err := d.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m := d.snapshot().Models; len(m) != 1 || m[0].Failure != c.want {
			t.Errorf("%+v: models %+v", c, m)
		}
	}
}

// A thousand models are looked at each second: what cannot have changed is not
// read again, and of what does not run, or goes away, nothing is asked.
func TestRefreshAsksForWhatMayHaveChanged(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	asked := 0
	d.target = observed{status: func(ref budget.Ref) (delivery.Status, error) {
		asked++
		return delivery.Status{Ref: ref, Exists: true, Asked: 1, Ready: 1}, nil
	}}
	submit(t, l, "one")
	if _, err := l.Admit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	refresh := func(what string, wantBindings int64, wantAsked int, wantUID string) {
		t.Helper()
		l.bindings.Store(0)
		asked = 0
		if err := d.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.bindings.Load(); got != wantBindings || asked != wantAsked {
			t.Errorf("%s: bindings read %d times and %d objects observed, want %d and %d", what, got, asked, wantBindings, wantAsked)
		}
		if m := d.snapshot().Models; len(m) != 1 || m[0].ObjectUID != wantUID {
			t.Errorf("%s: models %+v", what, m)
		}
	}
	refresh("not delivered", 1, 0, "")
	delivered(t, l)
	refresh("just delivered", 1, 1, "uid-one")
	refresh("running", 0, 1, "uid-one")
	if _, err := l.RequestRelease(t.Context(), budget.Ref{Tenant: "team-a", ID: "one"}); err != nil {
		t.Fatal(err)
	}
	refresh("being released", 0, 0, "uid-one")
}

// Where nobody asks, the ledger is read from time to time only, and the first
// question is answered with what is true now.
func TestASnapshotIsMadeForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	d, l := newTestDirectory(t)
	now := time.Now()
	d.clock = func() time.Time { return now }
	d.fresh = feed.NewFreshness(d.clock)
	refreshed := func(after time.Duration, what string, want int64) {
		t.Helper()
		now = now.Add(after)
		before := l.reads.Load()
		if !d.rests(now) {
			if err := d.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.reads.Load() - before; got != want {
			t.Errorf("%s: read %d times, want %d", what, got, want)
		}
	}
	refreshed(0, "not on demand", 1)
	refreshed(0, "not on demand, again", 1)
	d.onDemand = true
	refreshed(time.Second, "nobody asked", 0)
	refreshed(restedFor, "nobody asked for long", 1)
	refreshed(time.Second, "and goes on", 0)
	since := now
	before := l.reads.Load()
	d.question(t.Context())
	if d.question(t.Context()); l.reads.Load() != before+1 || d.snapshot().At.Before(since) {
		t.Errorf("the first questions after a rest cost %d reads, and the snapshot is %s old", l.reads.Load()-before, since.Sub(d.snapshot().At))
	}
	refreshed(time.Second, "somebody asked", 1)
	refreshed(askedFor-2*time.Second, "somebody asked of late", 1)
	before = l.reads.Load()
	if d.question(t.Context()); l.reads.Load() != before {
		t.Error("a question made a snapshot that is kept anyway")
	}
	refreshed(time.Second, "somebody asks again", 1)
	refreshed(askedFor, "nobody asks any more", 1)
	refreshed(time.Second, "nobody asks any more, and it was just read", 0)
	// The ledger is away when somebody asks: the last snapshot stays, as old as it is.
	l.away.Store(true)
	good := d.snapshot()
	if d.question(t.Context()); d.snapshot() != good {
		t.Error("the last snapshot was given up")
	}
}
