package gateway

import (
	"errors"
	"net/http"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
	"modeldock.io/internal/traffic/route"
)

// reach finds a replica that takes the request and returns the head of its
// answer. Another replica is asked only if the first has certainly not taken
// the request: its connection failed, or it said so with 503. Nothing is
// repeated after that, and nothing beyond the budget.
func (g *Gateway) reach(x *exchange, key *traffic.Key, op operation, m *traffic.Model, asked *wire.Request, b *body) (*answer, error) {
	g.retries.Request(x.rec.ReceivedAt)
	var lease *route.Lease
	for {
		if lease == nil {
			var err error
			if lease, err = g.place(x, m); err != nil {
				return nil, err
			}
			if err = g.stillMay(key, m, asked.Model); err != nil { // it may have waited
				g.giveBack(lease)
				return nil, err
			}
		}
		a, err := g.attempt(x, op, m, lease, asked, b)
		if !refusedByReplica(a, err) {
			return a, err
		}
		x.wish.demand.Avoid(lease)
		if !g.retries.Retry(g.cfg.Clock()) {
			return a, err
		}
		if lease = nil; a != nil {
			// Its refusal stands if nobody else is free: it may have words
			// for it.
			next, ok := g.cfg.Table.Acquire(keyOf(m), &x.wish.demand)
			if !ok {
				return a, nil
			}
			lease = next
			a.close()
		}
		x.rec.SentAt, x.rec.FirstByteAt = time.Time{}, time.Time{} // of the next one
		g.metrics.retries.Inc()
	}
}

// refusedByReplica tells that a replica has not taken the request.
func refusedByReplica(a *answer, err error) bool {
	var f *failure
	if err != nil {
		return errors.As(err, &f) && f.unsent
	}
	return a.StatusCode == http.StatusServiceUnavailable
}

// attempt sends the request to the leased replica. The lease is given back
// unless there is an answer, which then holds it.
func (g *Gateway) attempt(x *exchange, op operation, m *traffic.Model, lease *route.Lease, asked *wire.Request, b *body) (a *answer, err error) {
	defer func() {
		if a == nil {
			g.giveBack(lease)
		}
	}()
	endpoint := lease.Endpoint()
	x.endpoint(endpoint)
	upstream := endpoint.Upstream
	if upstream == "" {
		upstream = m.Name
	}
	b.patch(asked.Patches(upstream, op.usage))
	if a, err = g.forward(x, op, *endpoint, b); err != nil {
		var f *failure
		if errors.As(err, &f) && f.unsent {
			lease.Unreached()
		} else if errors.As(err, &f) {
			lease.Failed()
		}
		return nil, err
	}
	a.lease = lease
	if a.StatusCode >= http.StatusInternalServerError {
		lease.Failed()
	} else {
		lease.Answered()
	}
	return a, nil
}
