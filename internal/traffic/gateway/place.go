package gateway

import (
	"context"
	"errors"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/waitroom"
)

const (
	// recheckEvery is how often a line looks at the snapshot by itself.
	recheckEvery = 500 * time.Millisecond
	// firstProgress is how long a wait is before its caller is told of it: a
	// shorter one costs no honest status.
	firstProgress   = 500 * time.Millisecond
	defaultProgress = 5 * time.Second
)

// The bounds of what waits, unless configured otherwise.
const (
	defaultTenantRequests = 2000
	defaultTenantBytes    = 256 << 20
	defaultWaitingBytes   = 1 << 30
)

func (g *Gateway) newRoom() *waitroom.Room[queueKey, *route.Demand, *route.Lease] {
	b := g.cfg.Waiting
	if b.TenantRequests <= 0 {
		b.TenantRequests = defaultTenantRequests
	}
	if b.TenantBytes <= 0 {
		b.TenantBytes = defaultTenantBytes
	}
	if b.Bytes <= 0 {
		b.Bytes = defaultWaitingBytes
	}
	return waitroom.New(waitroom.Config[queueKey, *route.Demand, *route.Lease]{
		Take: func(k queueKey, d *route.Demand, waited bool) (*route.Lease, bool) {
			d.Queued = waited
			return g.cfg.Table.Acquire(k.Key, d)
		},
		Now: g.cfg.Clock, Bounds: b, Check: g.recheck, CheckEvery: recheckEvery,
	})
}

// place finds a replica with a place for the request, waiting for one if none
// has. The caller gives the lease back.
func (g *Gateway) place(x *exchange, m *traffic.Model) (*route.Lease, error) {
	k, w := keyOf(m), &x.wish
	x.uses(g.activities.of(k))
	if g.room.Empty() { // else those who wait come first
		if lease, ok := g.cfg.Table.Acquire(k, &w.demand); ok {
			return lease, nil
		}
	}
	if err := hopeless(m); err != nil {
		if lease, ok := g.cfg.Table.Acquire(k, &w.demand); ok {
			return lease, nil // another replica of it does run
		}
		return nil, err
	}
	if err := g.unsatisfiable(m, w.demand.Class); err != nil {
		return nil, err
	}
	return g.wait(x, m, k)
}

// wait stands in line for a place.
func (g *Gateway) wait(x *exchange, m *traffic.Model, k route.Key) (*route.Lease, error) {
	w, since := &x.wish, g.cfg.Clock()
	if w.until.IsZero() {
		w.until = since.Add(w.patience)
	}
	if !g.cfg.Table.Ready(k) {
		g.wakeUp(m, since)
	}
	guest := waitroom.Guest[*route.Demand]{
		Need: &w.demand, Tenant: x.rec.Tenant, Class: w.class, Tokens: w.demand.Tokens, Bytes: w.bytes,
		MaxWaiting: m.MaxWaiting, Timeout: w.until.Sub(since), Choosy: w.demand.Choosy(),
	}
	if w.progress {
		guest.ProgressFirst, guest.ProgressEvery = min(firstProgress, g.progressEvery()), g.progressEvery()
		guest.Progress = func(o waitroom.Outlook) error { return x.tellProgress(o, g.remaining(m, o)) }
	}
	leave := g.classed.enter(k, w.demand.Class)
	lease, err := g.room.Wait(x.r.Context(), queueKey{k, w.demand.Class}, guest)
	leave()
	if guest.Timeout > 0 && !turnedAway(err) {
		x.rec.QueuedFor += g.cfg.Clock().Sub(since)
	}
	if err != nil {
		return nil, g.notPlaced(x, m, err)
	}
	w.charged += w.demand.Tokens
	if x.r.Context().Err() != nil { // it left while it was handed the place
		g.giveBack(lease)
		return nil, x.gone()
	}
	return lease, nil
}

// turnedAway tells that the waiting room was full for a request that had not
// waited.
func turnedAway(err error) bool {
	return errors.Is(err, waitroom.ErrFull) || errors.Is(err, waitroom.ErrTenantFull) || errors.Is(err, waitroom.ErrMemory)
}

func (g *Gateway) progressEvery() time.Duration {
	if g.cfg.ProgressEvery > 0 {
		return g.cfg.ProgressEvery
	}
	return defaultProgress
}

// notPlaced turns the reason for which a wait ended into the answer.
func (g *Gateway) notPlaced(x *exchange, m *traffic.Model, err error) error {
	switch {
	case errors.Is(err, waitroom.ErrFull):
		return g.roomFull(m)
	case errors.Is(err, waitroom.ErrTenantFull):
		return g.tenantFull(m)
	case errors.Is(err, waitroom.ErrMemory):
		return g.memoryFull(m)
	case errors.Is(err, waitroom.ErrEvicted):
		g.metrics.evictions.Inc()
		return g.evicted(m)
	case errors.Is(err, waitroom.ErrTimeout) && x.wish.demand.Choosy():
		return g.refusedByAll(m)
	case errors.Is(err, waitroom.ErrTimeout):
		return g.waitedTooLong(m, &x.wish)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errStopped):
		return x.gone()
	}
	return err
}

// giveBack returns a place and hands it to whoever is next in line.
func (g *Gateway) giveBack(l *route.Lease) {
	l.Release()
	if !g.room.Empty() {
		g.wakeLines(route.KeyOf(*l.Endpoint()))
	}
}
