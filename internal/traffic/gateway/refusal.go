package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
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
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_failed", outcome: traffic.ExpiredWaiting,
		message: fmt.Sprintf("the model %q cannot be loaded: %s; its owner sees which request it is with \"modeldock list --model %s\", and details with \"modeldock explain\"",
			m.Name+"@"+m.Version, m.Failure, m.Name),
		retryAfter: 60 * time.Second, dropped: droppedFailed,
	}
}

// notLookedAt is what a caller hears of a model that may be one of those of a
// crowded owner. 404 would be final for clients.
func notLookedAt(written, owner string) error {
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_unknown", param: "model", outcome: traffic.NotFound,
		message: fmt.Sprintf("the model %.200q is not served: more models of %s wait for budget than are looked at one by one, and it is one of them unless it was released; "+
			"\"modeldock list\" shows its owner which wait", written, owner),
		retryAfter: 60 * time.Second,
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

// unsatisfiable refuses at once to wait for a card that no ready replica runs
// on: nothing says that one ever will. While none is ready, one may come.
func (g *Gateway) unsatisfiable(m *traffic.Model, class string) error {
	if class == "" || !g.cfg.Table.Ready(keyOf(m)) {
		return nil
	}
	cards, found := g.cfg.Table.Cards(keyOf(m), class)
	if found {
		return nil
	}
	there := strings.Join(cards, ", ")
	if there == "" {
		there = "cards whose model is not known"
	}
	return badRequest(&wire.RequestError{Code: "accelerator_unavailable", Err: fmt.Errorf(
		"no ready replica of the model %q runs on a card whose name contains %q, which the header x-modeldock-accelerator asks for; they run on %s: "+
			"ask for one of these or leave the header out", m.Name+"@"+m.Version, class, there)})
}

func (g *Gateway) waitedTooLong(m *traffic.Model, w *wish) error {
	if err := g.unsatisfiable(m, w.demand.Class); err != nil {
		return err // the last replica on such a card is gone
	}
	code := "model_loading"
	if g.cfg.Table.Ready(keyOf(m)) {
		code = "no_capacity"
	}
	among := ""
	if w.demand.Class != "" {
		among = fmt.Sprintf(" (of those whose card's name contains %q, as x-modeldock-accelerator asks)", w.demand.Class)
	}
	return g.refusal(m, http.StatusServiceUnavailable, code, droppedTimeout, traffic.ExpiredWaiting, func(s int) string {
		return fmt.Sprintf("%s and none took the request within %s%s; try again in %d s", g.state(m), w.patience.Round(time.Millisecond), among, s)
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
