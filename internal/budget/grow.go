package budget

import (
	"fmt"
	"iter"
	"time"
)

// NextGrow decides what funding n replicas of r takes; fewer than are funded
// change nothing. Errors: ErrFinal, ErrReleaseRequested, ErrNotReserved,
// *ReplicaBoundError.
func NextGrow(r Reservation, n int) (Amendment, error) {
	if err := resizable(r); err != nil {
		return Amendment{}, err
	}
	if most := r.Model.Replicas.Max; n > most {
		return Amendment{}, &ReplicaBoundError{Ref: r.Ref, Asked: n, Bound: most, Name: "replicas.max"}
	}
	return r.amend(r.Model, max(n, r.Funded)), nil
}

// NextShrink decides what lowering r to n replicas does; more than are funded
// change nothing. It gives no slots back: the replicas that are to end still
// run. Errors as of NextGrow.
func NextShrink(r Reservation, n int) (Amendment, error) {
	if err := resizable(r); err != nil {
		return Amendment{}, err
	}
	if least := r.Model.Replicas.Funded(); n < least {
		return Amendment{}, &ReplicaBoundError{Ref: r.Ref, Asked: n, Bound: least, Name: "max(1, replicas.min)"}
	}
	return r.amend(r.Model, min(n, r.Funded)), nil
}

func resizable(r Reservation) error {
	if r.State == Waiting {
		return fmt.Errorf("%w: request %s/%s waits and has no replicas yet", ErrNotReserved, r.Tenant, r.ID)
	}
	return changeable(r)
}

// Surplus is what r holds beyond its funded replicas: the slots of replicas
// that a shrink ends and that were not given back yet.
func (r Reservation) Surplus() int64 { return r.Held - slots(r.Cost, r.Funded) }

// ShrinkCreditable returns nil if r's surplus may be given back on the word
// that the world runs at most Funded replicas of at least generation, given
// all intents of r; otherwise an error that wraps ErrNotReleasable.
func ShrinkCreditable(r Reservation, intents []Intent, generation int64, now time.Time) error {
	if !r.ReleaseRequestedAt.IsZero() {
		return fmt.Errorf("%w: request %s/%s is being released, which gives back all that it holds", ErrNotReleasable, r.Tenant, r.ID)
	}
	if generation != r.Generation {
		return fmt.Errorf("%w: request %s/%s is at generation %d, and generation %d was seen to run", ErrNotReleasable, r.Tenant, r.ID, r.Generation, generation)
	}
	delivered := false
	for _, in := range intents {
		if in.Op != Apply {
			continue
		}
		if in.Leased(now) {
			return fmt.Errorf("%w: %s may still be applying generation %d of request %s/%s until %s",
				ErrNotReleasable, in.LeaseOwner, in.Generation, r.Tenant, r.ID, in.LeaseUntil.UTC().Format(time.RFC3339))
		}
		delivered = delivered || in.Generation == generation && !in.DeliveredAt.IsZero()
	}
	if !delivered {
		return fmt.Errorf("%w: the lower count of request %s/%s (generation %d) has not reached its target", ErrNotReleasable, r.Tenant, r.ID, generation)
	}
	return nil
}

// Grows decides whether the queue leaves room for amendment v of r, which
// takes v.Take slots more. A growth stands behind the whole queue: it takes
// free slots, but neither those that the next admission round gives to
// waiting requests nor those that are kept for one that has waited for the
// head wait. Otherwise whoever grows again at every release would starve all
// who wait. Waiting is as in Admissible; an amendment is refused with a
// *BlockedError, nil means that it may be made.
func (q *Queue) Grows(waiting iter.Seq[Request], r Reservation, v Amendment) error {
	if v.Take == 0 {
		return nil
	}
	t, p := q.account(q.tenants, "tenant", r.Tenant), q.account(q.pools, "pool", r.Pool)
	blocked := func(a *account, reason Reason) error {
		return &BlockedError{
			Ref: r.Ref, From: r.Funded, To: v.Funded, Need: v.Take, By: a.kind, Reason: reason,
			TenantUsed: t.used, TenantCap: t.limit, Pool: p.name, PoolUsed: p.used, PoolCap: p.limit,
		}
	}
	switch {
	case t.used+v.Take > t.limit:
		return blocked(t, QuotaBlocked)
	case p.used+v.Take > p.limit:
		return blocked(p, PoolBlocked)
	}
	for w := range waiting {
		q.Next(w)
		if p.refuses(v.Take) { // and will whatever comes after
			return blocked(p, QueuedBehind)
		}
	}
	if t.refuses(v.Take) {
		return blocked(t, QueuedBehind)
	}
	return nil
}

// refuses reports whether a has less than slots to spare beside its queue.
func (a *account) refuses(slots int64) bool { return a.keptFor != nil || a.free() < slots }

// BlockedError says why more replicas cannot be funded now. Nothing was
// changed. Reason is QuotaBlocked, PoolBlocked or QueuedBehind.
type BlockedError struct {
	Ref        Ref
	From, To   int    // replicas
	Need       int64  // slots that the difference takes
	By         string // "tenant" or "pool": whose slots do not suffice
	Reason     Reason
	TenantUsed int64
	TenantCap  int64
	Pool       string
	PoolUsed   int64
	PoolCap    int64
}

func (e *BlockedError) Error() string {
	text := fmt.Sprintf("request %q cannot go from %d to %d replicas: that takes %d more slots; tenant %s holds %d of %d slots, pool %s holds %d of %d",
		e.Ref.ID, e.From, e.To, e.Need, e.Ref.Tenant, e.TenantUsed, e.TenantCap, e.Pool, e.PoolUsed, e.PoolCap)
	switch {
	case e.Reason == QueuedBehind:
		return text + fmt.Sprintf(", and what is free of the %s goes to requests that wait: try again when they are served, or ask for fewer replicas", e.By)
	case e.By == "tenant":
		return text + ": release another request, ask an admin for a higher quota, or ask for fewer replicas"
	}
	return text + ": wait until other requests of the pool end, or ask for fewer replicas"
}

// ReplicaBoundError says that a count is outside the request's own bounds.
type ReplicaBoundError struct {
	Ref   Ref
	Asked int
	Bound int
	Name  string // of the bound
}

func (e *ReplicaBoundError) Error() string {
	return fmt.Sprintf("request %q cannot run %d replicas: its %s is %d; change replicas.min or replicas.max first", e.Ref.ID, e.Asked, e.Name, e.Bound)
}
