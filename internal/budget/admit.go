package budget

import (
	"iter"
	"time"
)

// Request is what admission has to know of a waiting reservation.
type Request struct {
	Ref
	Seq       int64
	Priority  int
	Pool      string
	Need      int64
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Request returns r as the queue sees it.
func (r Reservation) Request() Request {
	return Request{Ref: r.Ref, Seq: r.Seq, Priority: r.Priority, Pool: r.Pool, Need: r.Need(), CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt}
}

// Before reports whether q stands before o in the published order: higher
// priority first, then arrival.
func (q Request) Before(o Request) bool {
	if q.Priority != o.Priority {
		return q.Priority > o.Priority
	}
	return q.Seq < o.Seq
}

// Queue walks waiting requests in the published order and decides each:
//
//  1. One whose time to live has passed is never admitted and holds back nobody.
//  2. Need = cost × max(1, replicas.min). Above the tenant's cap it is
//     ExceedsQuota, above the pool's cap ExceedsPool: it could never fit at
//     present caps and holds back nobody.
//  3. If the tenant's slots are kept for one of its own requests further
//     ahead, it is QueuedBehind.
//  4. If the tenant's free quota cannot take it, it is QuotaBlocked. That
//     never holds up other tenants; once it has waited for the head wait, the
//     tenant's slots are kept for it.
//  5. If the pool's slots are kept for a request further ahead, it is QueuedBehind.
//  6. If the pool's free slots cannot take it, it is PoolBlocked; once it has
//     waited for the head wait, the pool's slots are kept for it.
//  7. Otherwise it is admitted, and takes its slots before the next is decided.
//
// So among requests of equal priority nothing feasible waits for ever. A
// Queue is used once and by one goroutine.
type Queue struct {
	tenants  map[string]*account
	pools    map[string]*account
	now      time.Time
	headWait time.Duration
}

// account is a tenant's or a pool's slots during one walk.
type account struct {
	kind    string
	name    string
	limit   int64
	used    int64 // as stored
	promise int64 // taken during this walk
	keptFor *Request
	seen    int // live requests that passed
}

func (a *account) free() int64 { return a.limit - a.used - a.promise }

// NewQueue starts a walk over the given figures.
func NewQueue(tenants []Tenant, pools []Pool, now time.Time, headWait time.Duration) *Queue {
	q := &Queue{
		tenants: make(map[string]*account, len(tenants)), pools: make(map[string]*account, len(pools)),
		now: now, headWait: headWait,
	}
	for _, t := range tenants {
		q.tenants[t.Name] = &account{kind: "tenant", name: t.Name, limit: t.Cap, used: t.Used}
	}
	for _, p := range pools {
		q.pools[p.Name] = &account{kind: "pool", name: p.Name, limit: p.Cap, used: p.Used}
	}
	return q
}

// Exhausted reports whether no later request can be admitted, because every
// pool is full or kept for somebody.
func (q *Queue) Exhausted() bool {
	for _, p := range q.pools {
		if p.keptFor == nil && p.free() > 0 {
			return false
		}
	}
	return true
}

// MostFree is the number of free slots of the emptiest pool. A request that
// needs more, and has not waited for the head wait, changes nothing in the
// walk: a ledger may leave it out when it only admits.
func (q *Queue) MostFree() int64 {
	most := int64(0)
	for _, p := range q.pools {
		most = max(most, p.free())
	}
	return most
}

// Matters bounds what a tenant's later requests must need to change anything in
// the walk: young is for those that have not waited for the head wait, most for
// all. Both are zero once the tenant's slots are kept for one of its requests.
// A ledger may leave out the others when it only admits.
func (q *Queue) Matters(tenant string) (young, most int64) {
	t := q.account(q.tenants, "tenant", tenant)
	if t.keptFor != nil {
		return 0, 0
	}
	return max(0, min(t.free(), q.MostFree())), t.limit
}

// Next decides the next request in order. The reason AwaitingAdmission means
// that it is admitted by this walk. The standing has its words when it is
// Explained: a walk decides thousands, of which few are read.
func (q *Queue) Next(r Request) Standing {
	t, p := q.account(q.tenants, "tenant", r.Tenant), q.account(q.pools, "pool", r.Pool)
	s := Standing{Need: r.Need, TenantUsed: t.used, TenantCap: t.limit, Pool: r.Pool, PoolUsed: p.used, PoolCap: p.limit, Ahead: p.seen}
	s.grounds = grounds{tenant: t.name, tenantMore: t.promise, poolMore: p.promise, expires: r.ExpiresAt}
	if Overdue(r.ExpiresAt, q.now) {
		s.Reason = TTLElapsed
		return s
	}
	p.seen++
	switch {
	case r.Need > t.limit:
		s.Reason = ExceedsQuota
	case r.Need > p.limit:
		s.Reason = ExceedsPool
	case t.keptFor != nil:
		s.Reason, s.grounds.head = QueuedBehind, t.keptFor
	case r.Need > t.free():
		s.Reason = QuotaBlocked
		q.keep(t, r)
	case p.keptFor != nil:
		s.Reason, s.grounds.head, s.grounds.ofPool = QueuedBehind, p.keptFor, true
	case r.Need > p.free():
		s.Reason = PoolBlocked
		q.keep(p, r)
	default:
		s.Reason = AwaitingAdmission
		t.promise += r.Need
		p.promise += r.Need
	}
	return s
}

// account returns the named account; one that does not exist has no slots.
func (q *Queue) account(in map[string]*account, kind, name string) *account {
	a := in[name]
	if a == nil {
		a = &account{kind: kind, name: name}
		in[name] = a
	}
	return a
}

// keep reserves what a will free for r, once r has let others pass long enough.
func (q *Queue) keep(a *account, r Request) {
	if q.now.Sub(r.CreatedAt) >= q.headWait {
		head := r // most others are kept nowhere
		a.keptFor = &head
	}
}

// Admissible returns at most limit (0: all) requests of waiting, which is in
// the published order, that the queue admits.
func (q *Queue) Admissible(waiting iter.Seq[Request], limit int) []Request {
	var admitted []Request
	if q.Exhausted() {
		return nil
	}
	for r := range waiting {
		if q.Next(r).Reason != AwaitingAdmission {
			// A block may just have closed the last open pool.
			if q.Exhausted() {
				break
			}
			continue
		}
		admitted = append(admitted, r)
		if len(admitted) == limit || q.Exhausted() {
			break
		}
	}
	return admitted
}

// Standings explains the wanted requests of waiting, which is in the
// published order and complete.
func (q *Queue) Standings(waiting iter.Seq[Request], wanted map[Ref]bool) map[Ref]Standing {
	found := make(map[Ref]Standing, len(wanted))
	for r := range waiting {
		s := q.Next(r)
		if !wanted[r.Ref] {
			continue
		}
		found[r.Ref] = s.Explained()
		if len(found) == len(wanted) {
			break
		}
	}
	return found
}

// WaitReason explains one request; false if it does not wait.
func (q *Queue) WaitReason(waiting iter.Seq[Request], ref Ref) (Standing, bool) {
	s, ok := q.Standings(waiting, map[Ref]bool{ref: true})[ref]
	return s, ok
}
