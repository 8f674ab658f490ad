package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
)

// directory keeps the gateway's snapshot current: keys, grants, models. The
// gateway works on the last one whenever the ledger cannot be read.
type directory struct {
	ledger  budget.Ledger
	target  delivery.Target
	clock   func() time.Time
	stale   *outage.Log
	changed func() // told after every new snapshot
	current atomic.Pointer[traffic.Snapshot]

	fresh *feed.Freshness

	// onDemand says that the snapshot is for those who ask alone.
	onDemand bool
	asked    atomic.Pointer[time.Time] // when somebody last did; nil: never
	resting  atomic.Bool               // nobody did of late, and the snapshot may be old

	mostPending int // waiting requests in a snapshot at most

	refreshing sync.Mutex // guards what follows, and the order of snapshots
	version    uint64
	// bound are the bindings of the live requests of one ledger: they never
	// change, so that they are read again only if one of them is not known.
	bound   map[budget.Ref]budget.Binding
	boundIn string
}

func newDirectory(ledger budget.Ledger, target delivery.Target, clock func() time.Time, log *slog.Logger) *directory {
	return &directory{ledger: ledger, target: target, clock: clock, mostPending: maxPending, fresh: feed.NewFreshness(clock), stale: outage.New(log, clock, "gateway snapshot is not refreshed; traffic goes on with the last one")}
}

// snapshot returns the latest one; never nil.
func (d *directory) snapshot() *traffic.Snapshot {
	if s := d.current.Load(); s != nil {
		return s
	}
	return &traffic.Snapshot{}
}

// taken returns the latest one, nil before there is any: to a gateway, an
// empty one would say that nothing is served any more.
func (d *directory) taken() *traffic.Snapshot { return d.current.Load() }

// run refreshes at every wake and, as a safety net, every second; where nobody
// asks, from time to time.
func (d *directory) run(ctx context.Context, wake <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		began := d.clock()
		if !d.rests(began) {
			d.notRefreshed(ctx, d.refresh(ctx))
		}
		// While much happens, refreshes take a tenth of the time at most; who
		// needs one sooner asks refreshSince.
		breath := min(9*d.clock().Sub(began), time.Second)
		select {
		case <-ctx.Done():
			return
		case <-time.After(breath):
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}

const (
	// askedFor is for how long a question counts: a gateway's next one comes
	// within half a minute.
	askedFor = time.Minute
	// restedFor is the age of a snapshot that nobody asks for.
	restedFor = 30 * time.Second
)

// rests reports whether nobody needs a snapshot now. Each controller would
// otherwise read the whole ledger at every change, also one whose gateways all
// ask another.
func (d *directory) rests(now time.Time) bool {
	asked := d.asked.Load()
	rests := d.onDemand && (asked == nil || now.Sub(*asked) >= askedFor) && now.Sub(d.snapshot().At) < restedFor
	d.resting.Store(rests)
	return rests
}

// question notes that somebody asks. The first one after a rest gets a snapshot
// taken from now on, if there can be one.
func (d *directory) question(ctx context.Context) {
	now := d.clock()
	d.asked.Store(&now)
	if d.resting.Load() {
		d.notRefreshed(ctx, d.refreshSince(ctx, now))
	}
}

func (d *directory) notRefreshed(ctx context.Context, err error) {
	switch {
	case err == nil:
		d.stale.Works()
	case ctx.Err() == nil:
		d.stale.Failed(err, "age", d.clock().Sub(d.snapshot().At))
	}
}

// Bounds of the snapshot.
const (
	// maxPending waiting requests are known to the gateway; of more, those of
	// the tenants that have the most are not, see traffic.Snapshot.Crowded.
	maxPending = 1000
	// pendingGrace is how long callers of a waiting model wait with it before
	// they are told that its budget is the reason.
	pendingGrace = 2 * time.Second
	// expiredKept is how long an expired key is told from an unknown one.
	expiredKept = 24 * time.Hour
)

// refreshSince returns once the snapshot was taken at since or later.
func (d *directory) refreshSince(ctx context.Context, since time.Time) error {
	return d.fresh.Since(ctx, since, func() time.Time { return d.snapshot().At }, d.refresh)
}

func (d *directory) refresh(ctx context.Context) error {
	d.refreshing.Lock()
	defer d.refreshing.Unlock()
	now := d.clock()
	s := &traffic.Snapshot{At: now, Keys: map[string]traffic.Key{}, Grants: map[traffic.GrantKey]struct{}{}, TakenBack: map[traffic.GrantKey]struct{}{}, Owned: map[string]map[string]struct{}{}}
	var err error
	if s.Ledger, _, err = d.ledger.Identity(ctx); err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	if err := d.readAccess(ctx, s, now); err != nil {
		return err
	}
	// The waiting ones are read first: a request that is admitted between the
	// two lists is then in both, and never in neither.
	waiting, err := d.ledger.Waiting(ctx, d.mostPending)
	if err != nil {
		return fmt.Errorf("list the waiting requests: %w", err)
	}
	live, err := d.ledger.List(ctx, budget.Filter{State: budget.Reserved})
	if err != nil {
		return fmt.Errorf("list the live requests: %w", err)
	}
	if err := d.readBindings(ctx, s.Ledger, live); err != nil {
		return err
	}
	admitted := make(map[budget.Ref]struct{}, len(live))
	for _, r := range live {
		admitted[r.Ref] = struct{}{}
		s.Models = append(s.Models, d.model(ctx, r))
	}
	for _, r := range waiting.Requests {
		if _, live := admitted[r.Ref]; !live {
			s.Models = append(s.Models, d.pending(r, now))
		}
	}
	for tenant := range waiting.More {
		if s.Crowded == nil {
			s.Crowded = map[string]struct{}{}
		}
		s.Crowded[tenant] = struct{}{}
	}
	d.version++
	s.Version = d.version
	d.current.Store(s)
	if d.changed != nil {
		d.changed()
	}
	return nil
}

// readBindings brings d.bound up to date, in one question for all.
func (d *directory) readBindings(ctx context.Context, ledger string, live []budget.Reservation) error {
	unknown := func(r budget.Reservation) bool { _, known := d.bound[r.Ref]; return !known }
	if d.boundIn == ledger && !slices.ContainsFunc(live, unknown) {
		return nil
	}
	bound, err := d.ledger.LiveBindings(ctx)
	if err != nil {
		return fmt.Errorf("read what the live requests are bound to: %w", err)
	}
	d.bound, d.boundIn = bound, ledger
	return nil
}

func (d *directory) readAccess(ctx context.Context, s *traffic.Snapshot, now time.Time) error {
	keys, err := d.ledger.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	for _, k := range keys {
		// A key that expired of late is kept, so that its caller is told when.
		if k.Live(now) || k.RevokedAt.IsZero() && now.Sub(k.ExpiresAt) < expiredKept {
			s.Keys[k.ID] = traffic.Key{ID: k.ID, Tenant: k.Tenant, Admin: k.Role == budget.RoleAdmin, SecretHash: k.SecretHash, ExpiresAt: k.ExpiresAt}
		}
	}
	if s.Limits, err = d.limits(ctx); err != nil {
		return err
	}
	grants, err := d.ledger.Grants(ctx)
	if err != nil {
		return fmt.Errorf("read the grants: %w", err)
	}
	for _, g := range grants {
		s.Grants[grantKey(g)] = struct{}{}
	}
	ended, err := d.ledger.EndedGrants(ctx)
	if err != nil {
		return fmt.Errorf("read the grants that ended: %w", err)
	}
	for _, g := range ended {
		if !g.Declined {
			s.TakenBack[grantKey(g.Grant)] = struct{}{}
		}
	}
	owned, err := d.ledger.OwnedNames(ctx)
	if err != nil {
		return fmt.Errorf("read the owned names: %w", err)
	}
	for tenant, names := range owned {
		set := make(map[string]struct{}, len(names))
		for _, n := range names {
			set[n] = struct{}{}
		}
		s.Owned[tenant] = set
	}
	return nil
}

func grantKey(g budget.Grant) traffic.GrantKey {
	return traffic.GrantKey{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee}
}

// limits are those of the tenants that have any.
func (d *directory) limits(ctx context.Context) (map[string]traffic.Limits, error) {
	tenants, err := d.ledger.Tenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the tenants' limits: %w", err)
	}
	var out map[string]traffic.Limits
	for _, t := range tenants {
		l := traffic.Limits{
			Together: traffic.Rates(t.Limits.Together()), Window: time.Duration(t.Limits.WindowSeconds) * time.Second, MaxClass: string(t.Limits.MaxClass),
		}
		if t.Limits.PerKey != nil {
			l.PerKey = traffic.Rates(*t.Limits.PerKey)
		}
		if l.Together == (traffic.Rates{}) && l.PerKey == (traffic.Rates{}) && l.MaxClass == "" {
			continue
		}
		if out == nil {
			out = map[string]traffic.Limits{}
		}
		out[t.Name] = l
	}
	return out, nil
}

// pending is a model whose budget is not granted yet: a caller that comes right
// after the submit waits with it, a later one is told the reason.
func (d *directory) pending(r budget.Reservation, now time.Time) traffic.Model {
	m := served(r)
	m.Pending = true
	if now.Sub(r.CreatedAt) > pendingGrace {
		m.Failure = "its request waits for budget"
	}
	return m
}

func served(r budget.Reservation) traffic.Model {
	var kept time.Duration
	if r.Model.Cache.Enabled {
		kept = time.Duration(r.Model.Cache.TTLSeconds) * time.Second
	}
	return traffic.Model{
		Owner: r.Tenant, Name: r.Model.Name, Version: r.Model.Version, RequestID: r.ID,
		Weight: r.Model.Traffic.Weight, CreatedAt: r.CreatedAt,
		WaitTimeout: time.Duration(r.Model.ColdStart.TimeoutSeconds) * time.Second, MaxWaiting: r.Model.ColdStart.MaxWaiting,
		CacheTTL:     kept,
		Simulated:    r.Model.Engine == modelspec.EngineSimulated,
		ReleaseAsked: !r.ReleaseRequestedAt.IsZero(),
	}
}

func (d *directory) model(ctx context.Context, r budget.Reservation) traffic.Model {
	m := served(r)
	m.ObjectUID = d.bound[r.Ref].UID
	if m.ObjectUID == "" || m.ReleaseAsked {
		return m // nothing runs for it yet, or callers are not sent there any more
	}
	st, err := d.target.Observe(ctx, r.Ref)
	if err != nil || !st.Exists {
		return m
	}
	m.Asleep = st.Asleep()
	if st.Ready == 0 && !m.Asleep && lasting(st.Reason) {
		m.Failure = string(st.Reason)
	}
	return m
}

// lasting reports whether waiting for a model with this reason is in vain for
// longer than a caller would wait. A model that crashed once is no such case:
// it is started again at once.
func lasting(r delivery.Reason) bool {
	return r == delivery.ModelLoadFailed || r == delivery.CrashLooping || r == delivery.ProgressDeadlineExceeded
}
