package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/waitroom"
)

// recheckEvery is how often a waiting request looks at the snapshot by itself.
const recheckEvery = 500 * time.Millisecond

// place finds a replica with a place for the request, waiting for one if none
// is ready. The caller releases the lease.
func (g *Gateway) place(x *exchange, m *traffic.Model) (*route.Lease, error) {
	k := keyOf(m)
	if g.room.Empty() { // else those who wait come first
		if lease, ok := g.cfg.Table.Acquire(k); ok {
			return lease, nil
		}
	}
	if err := hopeless(m); err != nil {
		if lease, ok := g.cfg.Table.Acquire(k); ok {
			return lease, nil // another replica of it does run
		}
		return nil, err
	}
	patience, err := patienceOf(x.r, m)
	if err != nil {
		return nil, err
	}
	since := g.cfg.Clock()
	lease, err := g.room.Wait(x.r.Context(), k, waitroom.Limits{
		MaxWaiting: m.MaxWaiting,
		Timeout:    patience,
		Check:      func() error { return g.verdict(m) },
		CheckEvery: recheckEvery,
	})
	x.rec.QueuedFor = g.cfg.Clock().Sub(since)
	switch {
	case err == nil:
		return lease, nil
	case errors.Is(err, waitroom.ErrFull):
		return nil, g.roomFull(m)
	case errors.Is(err, waitroom.ErrTimeout):
		return nil, g.waitedTooLong(m, patience)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return nil, errGone
	}
	return nil, err
}

// patienceOf is the model's wait limit, which the caller may lower.
func patienceOf(r *http.Request, m *traffic.Model) (time.Duration, error) {
	asked := r.Header.Get("X-Modeldock-Wait")
	if asked == "" {
		return m.WaitTimeout, nil
	}
	seconds, err := strconv.ParseFloat(asked, 64)
	if err != nil || !(seconds >= 0) {
		return 0, badRequest(fmt.Errorf("the header x-modeldock-wait must be a number of seconds, not %.40q", asked))
	}
	if seconds >= m.WaitTimeout.Seconds() {
		return m.WaitTimeout, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// verdict tells from the newest snapshot whether waiting for m still makes
// sense.
func (g *Gateway) verdict(m *traffic.Model) error {
	view, err := g.known()
	if err != nil {
		return nil //nolint:nilerr // what was known when the wait began still holds
	}
	now := view.current(m)
	if now == nil {
		return modelNotFound(m.Name)
	}
	return hopeless(now)
}

// SnapshotChanged is a hint that Config.Snapshot returns something new: those
// who wait for a model that failed or is gone learn it at once.
func (g *Gateway) SnapshotChanged() {
	view, err := g.known()
	if err != nil {
		return
	}
	for k := range g.room.Queues() {
		if err := view.fate(k); err != nil {
			g.room.Fail(k, err)
		}
	}
}

// fate is nil while version k may still become ready.
func (i *index) fate(k route.Key) error {
	for _, m := range i.live[ownedName{k.Owner, k.Model}] {
		if m.Version == k.Version {
			return hopeless(m)
		}
	}
	return modelNotFound(k.Model)
}

// Waiting tells for every version how many requests wait for it.
func (g *Gateway) Waiting() map[route.Key]int { return g.room.Queues() }

// hopeless says that the model cannot load, and why.
func hopeless(m *traffic.Model) error {
	if m.Failure == "" {
		return nil
	}
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_failed", outcome: traffic.UpstreamError,
		message: fmt.Sprintf("the model %q cannot be loaded: %s; its owner sees details with \"modeldock explain %s\"",
			m.Name+"@"+m.Version, m.Failure, m.RequestID),
		retryAfter: 60 * time.Second,
	}
}

// remaining is how long the model will take as far as is known.
func (g *Gateway) remaining(m *traffic.Model) time.Duration {
	const unknown = 10 * time.Second
	if view, err := g.known(); err == nil {
		if now := view.current(m); now != nil {
			m = now
		}
	}
	if m.ExpectedAt.IsZero() {
		return unknown
	}
	return max(m.ExpectedAt.Sub(g.cfg.Clock()), time.Second)
}

func (g *Gateway) roomFull(m *traffic.Model) error {
	after := g.remaining(m)
	return &failure{
		status: http.StatusTooManyRequests, kind: typeRateLimit, code: "waiting_room_full", outcome: traffic.RejectedFull,
		message: fmt.Sprintf("the model %q has no ready replica and its waiting room is full (%d requests may wait); try again in %d s",
			m.Name+"@"+m.Version, m.MaxWaiting, retrySeconds(after)),
		retryAfter: after,
	}
}

func (g *Gateway) waitedTooLong(m *traffic.Model, patience time.Duration) error {
	after := g.remaining(m)
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_loading", outcome: traffic.ExpiredWaiting,
		message: fmt.Sprintf("the model %q had no ready replica within %s; try again in %d s",
			m.Name+"@"+m.Version, patience.Round(time.Millisecond), retrySeconds(after)),
		retryAfter: after,
	}
}
