package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/waitroom"
)

// wish is what a request needs of a replica and how it may wait for one. It is
// part of the exchange, so that it costs no allocation of its own.
type wish struct {
	demand   route.Demand
	class    waitroom.Class
	bytes    int64         // of the body
	progress bool          // tell the caller how the wait goes
	patience time.Duration // how long it may wait in all
	until    time.Time     // …and thereby until when, once it waits
	charged  int64         // tokens that its tenant was charged in the waiting room
}

// prepare reads from header and body what the request needs.
func (g *Gateway) prepare(x *exchange, m *traffic.Model, asked *wire.Request, b *body) (err error) {
	w, h := &x.wish, x.r.Header
	w.demand.Tokens, w.bytes = asked.PromptTokens()+x.estimate.answer, int64(len(b.bytes))
	if session := h.Get("X-Session-Id"); session != "" {
		w.demand.Affinity = route.SessionKey(session)
	} else {
		w.demand.Affinity = route.PrefixKey(asked.Prompt(b.bytes))
	}
	if w.demand.Class, err = classOf(h.Get("X-Modeldock-Accelerator")); err != nil {
		return err
	}
	if w.class, err = g.priorityOf(h.Get("X-Modeldock-Priority"), x.rec.Tenant); err != nil {
		return err
	}
	x.plain = asked.Plain
	w.progress = asked.Stream && h.Get("X-Modeldock-Progress") == "1"
	w.patience, err = patienceOf(h, m)
	return err
}

// classOf is the class of cards that the caller asks for.
func classOf(asked string) (string, error) {
	const most = 64
	if len(asked) > most || printable(strings.ReplaceAll(asked, " ", "")) == "" && asked != "" {
		return "", badRequest(fmt.Errorf("the header x-modeldock-accelerator must be the name of a card of at most %d characters, for example h200", most))
	}
	return strings.ToLower(strings.TrimSpace(asked)), nil
}

// priorityOf is the tenant's highest class, which the caller may lower.
func (g *Gateway) priorityOf(asked, tenant string) (waitroom.Class, error) {
	most := waitroom.Default
	if g.cfg.MaxPriority != nil {
		most = g.cfg.MaxPriority(tenant)
	}
	if asked == "" {
		return most, nil
	}
	class, err := waitroom.ParseClass(asked)
	if err != nil {
		return class, badRequest(fmt.Errorf("the header x-modeldock-priority: %w", err))
	}
	return min(most, class), nil
}

// patienceOf is the model's wait limit, which the caller may lower.
func patienceOf(h http.Header, m *traffic.Model) (time.Duration, error) {
	asked := h.Get("X-Modeldock-Wait")
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

// settleUse books what the request really used: who used more of late waits
// behind those who used less.
func (g *Gateway) settleUse(x *exchange) {
	used := x.used()
	failed := x.rec.Outcome == traffic.UpstreamError || x.rec.Outcome == traffic.UpstreamCut
	if failed && !x.reported() && x.answered.text == 0 {
		used = 0 // that nothing came is not the caller's doing
	}
	if used == x.wish.charged {
		return
	}
	g.room.Charge(queueKey{Key: route.Key{Owner: x.rec.Owner, Model: x.rec.Model, Version: x.rec.Version}, class: x.wish.demand.Class},
		x.rec.Tenant, used-x.wish.charged)
}
