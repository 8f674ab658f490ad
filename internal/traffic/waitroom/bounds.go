package waitroom

import "time"

// sweepEvery is how often what nobody needs any more is forgotten.
const sweepEvery = time.Minute

// queue returns the key's queue, a new one if there is none.
func (r *Room[K, N, G]) queue(k K, now time.Time) *queue {
	if now.Sub(r.swept) >= sweepEvery {
		r.sweep(now)
	}
	q := r.queues[k]
	if q == nil {
		q = &queue{line: newLine(now)}
		r.queues[k] = q
	}
	return q
}

// sweep forgets use that has faded, and keys of which nothing is left.
func (r *Room[K, N, G]) sweep(now time.Time) {
	r.swept = now
	for k, q := range r.queues {
		q.line.forget(now)
		if len(q.line.shares) == 0 {
			delete(r.queues, k)
		}
	}
}

// admit tells whether the request may wait, and makes room for it where that
// is fair.
func (r *Room[K, N, G]) admit(q *queue, g *Guest[N]) error {
	own := r.tenants[g.Tenant]
	if own == nil {
		own = &holding{}
	}
	b := r.cfg.Bounds
	switch {
	case r.closed != nil:
		return r.closed
	case g.Timeout <= 0:
		return ErrTimeout
	case g.MaxWaiting <= 0:
		return ErrFull
	case b.TenantRequests > 0 && own.requests >= b.TenantRequests, b.TenantBytes > 0 && own.bytes+g.Bytes > b.TenantBytes:
		return ErrTenantFull
	case b.Bytes > 0 && r.bytes+g.Bytes > b.Bytes:
		return ErrMemory
	case q.line.len() < g.MaxWaiting:
		return nil
	}
	e := q.line.yields(g.Tenant, g.Class)
	if e == nil {
		return ErrFull
	}
	var none G
	q.line.leave(e)
	r.settle(q, e.owner.(*ticket[N, G]), none, ErrEvicted) //nolint:forcetypeassert // see Wake
	return nil
}

// hold books what a tenant has waiting.
func (r *Room[K, N, G]) hold(tenant string, requests int, bytes int64) {
	h := r.tenants[tenant]
	if h == nil {
		h = &holding{}
		r.tenants[tenant] = h
	}
	h.requests += requests
	h.bytes += bytes
	r.bytes += bytes
	if *h == (holding{}) {
		delete(r.tenants, tenant)
	}
}

// Charge books tokens that a tenant used of k beyond what Wait has charged;
// negative ones are given back. It decides who comes first when requests
// wait.
func (r *Room[K, N, G]) Charge(k K, tenant string, tokens int64) {
	if tokens == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.queue(k, now).line.charge(tenant, tokens, now)
}

// foretellEvery is how old a foretold position may be.
const foretellEvery = time.Second

func (r *Room[K, N, G]) outlook(k K, e *entry) Outlook {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[k]
	if q == nil {
		return Outlook{Position: 1}
	}
	if now := r.cfg.Now(); q.foretold == nil || now.Sub(q.foretoldAt) >= foretellEvery || q.foretold[e] == 0 {
		q.foretold, q.foretoldAt = q.line.positions(now), now
	}
	return Outlook{Position: max(q.foretold[e], 1), Pace: q.pace.mean()}
}

// Outlook is what a request can be told that would join k's line now.
func (r *Room[K, N, G]) Outlook(k K) Outlook {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil {
		return Outlook{Position: q.line.len() + 1, Pace: q.pace.mean()}
	}
	return Outlook{Position: 1}
}

// Waiting tells how many requests wait for k.
func (r *Room[K, N, G]) Waiting(k K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil {
		return q.line.len()
	}
	return 0
}

// Tenants tells how many tenants wait for k; one counts once per class.
func (r *Room[K, N, G]) Tenants(k K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil {
		return q.line.turns.Len()
	}
	return 0
}

// Queue is one line as it is seen from outside.
type Queue struct {
	Waiting int
	Oldest  time.Duration // how long the first of them has waited
}

// Queues describes every key that has waiters.
func (r *Room[K, N, G]) Queues() map[K]Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	queues := map[K]Queue{}
	for k, q := range r.queues {
		if n := q.line.len(); n > 0 {
			queues[k] = Queue{Waiting: n, Oldest: now.Sub(q.line.oldest())}
		}
	}
	return queues
}

// Bounds are what the room was configured with.
func (r *Room[K, N, G]) Bounds() Bounds { return r.cfg.Bounds }
