package gateway

import (
	"fmt"
	"net/http"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/waitroom"
)

// What x-modeldock-dropped-reason says of requests that never reached an
// engine.
const (
	droppedFull     = "queue-full"
	droppedEvicted  = "queue-evicted"
	droppedTimeout  = "queue-timeout"
	droppedFailed   = "model-failed"
	droppedStopping = "shutting-down"
)

// hopeless says that the model cannot load, and why.
func hopeless(m *traffic.Model) error {
	if m.Failure == "" {
		return nil
	}
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_failed", outcome: traffic.UpstreamError,
		message: fmt.Sprintf("the model %q cannot be loaded: %s; its owner sees details with \"modeldock explain %s\"",
			m.Name+"@"+m.Version, m.Failure, m.RequestID),
		retryAfter: 60 * time.Second, dropped: droppedFailed,
	}
}

// remaining is how long a request will wait that has this outlook, as far as
// is known: the rest of the model's start by its earlier ones, then those who
// come first at the pace of late.
func (g *Gateway) remaining(m *traffic.Model, o waitroom.Outlook) time.Duration {
	const unknown = 10 * time.Second
	now := g.cfg.Clock()
	if view, err := g.known(); err == nil {
		if current := view.current(m); current != nil {
			m = current
		}
	}
	inLine := time.Duration(o.Position) * o.Pace
	if g.cfg.Table.Ready(keyOf(m)) {
		return max(inLine, time.Second)
	}
	if !m.ExpectedAt.IsZero() {
		return max(m.ExpectedAt.Sub(now), time.Second) + inLine
	}
	if start, known := g.starts.Remaining(keyOf(m), now); known {
		return max(start+inLine, time.Second)
	}
	return unknown
}

// refusal is the answer to a request that waited in vain or may not wait.
func (g *Gateway) refusal(m *traffic.Model, status int, code, dropped string, outcome traffic.Outcome, say func(seconds int) string) error {
	after := g.remaining(m, g.room.Outlook(queueKey{Key: keyOf(m)}))
	f := &failure{
		status: status, kind: typeRateLimit, code: code, outcome: outcome, dropped: dropped,
		message: say(retrySeconds(after)), retryAfter: after,
	}
	if status == http.StatusServiceUnavailable {
		f.kind = typeOverloaded
	}
	return f
}

// state puts into words why requests for the model wait.
func (g *Gateway) state(m *traffic.Model) string {
	if g.cfg.Table.Ready(keyOf(m)) {
		return fmt.Sprintf("all replicas of the model %q are busy", m.Name+"@"+m.Version)
	}
	return fmt.Sprintf("the model %q has no ready replica", m.Name+"@"+m.Version)
}

func (g *Gateway) roomFull(m *traffic.Model) error {
	return g.refusal(m, http.StatusTooManyRequests, "waiting_room_full", droppedFull, traffic.RejectedFull, func(s int) string {
		return fmt.Sprintf("%s and its waiting room is full (%d requests may wait); try again in %d s", g.state(m), m.MaxWaiting, s)
	})
}

func (g *Gateway) tenantFull(m *traffic.Model) error {
	b := g.room.Bounds()
	return g.refusal(m, http.StatusTooManyRequests, "tenant_waiting_full", droppedFull, traffic.RejectedFull, func(s int) string {
		return fmt.Sprintf("%s and as much of your tenant waits as may (%d requests, %d MiB); try again in %d s",
			g.state(m), b.TenantRequests, b.TenantBytes>>20, s)
	})
}

func (g *Gateway) memoryFull(m *traffic.Model) error {
	return g.refusal(m, http.StatusTooManyRequests, "waiting_room_full", droppedFull, traffic.RejectedFull, func(s int) string {
		return fmt.Sprintf("%s and the waiting requests of all models hold %d MiB, as much as they may; try again in %d s",
			g.state(m), g.room.Bounds().Bytes>>20, s)
	})
}

func (g *Gateway) evicted(m *traffic.Model) error {
	return g.refusal(m, http.StatusTooManyRequests, "evicted", droppedEvicted, traffic.RejectedFull, func(s int) string {
		return fmt.Sprintf("%s, its waiting room is full (%d requests may wait), and this request made room for one of a tenant "+
			"that had fewer, or of a higher class; try again in %d s", g.state(m), m.MaxWaiting, s)
	})
}

func (g *Gateway) waitedTooLong(m *traffic.Model, patience time.Duration) error {
	code := "model_loading"
	if g.cfg.Table.Ready(keyOf(m)) {
		code = "no_capacity"
	}
	return g.refusal(m, http.StatusServiceUnavailable, code, droppedTimeout, traffic.ExpiredWaiting, func(s int) string {
		return fmt.Sprintf("%s and none took the request within %s; try again in %d s", g.state(m), patience.Round(time.Millisecond), s)
	})
}

// refusedByAll is the answer to a request that replicas did not take, when no
// other came up in time.
func (g *Gateway) refusedByAll(m *traffic.Model) error {
	return g.refusal(m, http.StatusServiceUnavailable, "upstream_unreachable", droppedTimeout, traffic.UpstreamError, func(s int) string {
		return fmt.Sprintf("the replica of the model %q accepts no connections and no other was free in time; the request was not sent, try again in %d s",
			m.Name+"@"+m.Version, s)
	})
}

func stopping() error {
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "shutting_down", outcome: traffic.ExpiredWaiting,
		message:    "the gateway stops and ends all waiting; the request was not sent to a model, try again in a few seconds",
		retryAfter: 2 * time.Second, dropped: droppedStopping,
	}
}
