// Package agent watches the cards of one node of a cluster and tells everybody
// who places models on them (account 2): what is there and healthy, whenever
// that changes, and the memory in use, at each reading.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/device"
)

// Every is how often the cards are read.
const Every = time.Second

// Sink is told of the cards whenever one of them is there or not, healthy or
// not. It returns at once and does its work, and whatever has to be tried
// again, elsewhere.
type Sink interface {
	Set(cards []device.Card)
}

// Publisher is told at each reading how much memory of each card is in use, in
// MiB by uuid. It may be away.
type Publisher interface {
	Publish(ctx context.Context, at time.Time, usedMiB map[string]int64) error
}

// Config is what an agent works with.
type Config struct {
	Node string
	// Find finds the cards; it is tried again until it succeeds.
	Find       func(context.Context) (device.Inventory, error)
	Sinks      []Sink
	Publisher  Publisher // nil: nobody
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// findAgain is how long to wait before a driver is looked for again.
const findAgain = 15 * time.Second

// Agent is one node's.
type Agent struct {
	cfg     Config
	metrics *metrics
	samples chan sample // the latest, to be published

	mu      sync.Mutex
	tracker tracker
	told    []device.Card
	ever    bool // the sinks were told something
}

type sample struct {
	at   time.Time
	used map[string]int64
}

// New makes an agent, which Run starts.
func New(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, samples: make(chan sample, 1)}
	var err error
	a.metrics, err = newMetrics(cfg.Node, cfg.Registerer, a.view)
	return a, err
}

// Run works until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { a.publish(ctx) })
	work.Go(func() { a.watchSilence(ctx) })
	if inventory, ok := a.find(ctx); ok {
		a.cfg.Logger.Info("cards found", "why", inventory.Why)
		inventory.Follow(ctx, Every, a.reading)
	}
	work.Wait()
}

// find looks for cards until there are some. A node without any says so: what
// an earlier agent said of it is not true any more.
func (a *Agent) find(ctx context.Context) (device.Inventory, bool) {
	for {
		inventory, err := a.cfg.Find(ctx)
		if ctx.Err() != nil {
			return inventory, false
		}
		if err == nil {
			return inventory, true
		}
		a.cfg.Logger.Error("no cards", "error", err, "again in", findAgain)
		a.metrics.errors.Inc()
		a.tell(nil)
		select {
		case <-ctx.Done():
			return inventory, false
		case <-time.After(findAgain):
		}
	}
}

func (a *Agent) reading(cards []device.Card, err error) {
	now := a.cfg.Clock()
	a.mu.Lock()
	if err != nil {
		a.tracker.failed(err)
	} else {
		a.tracker.good(cards, now)
	}
	current := a.tracker.now(now)
	a.mu.Unlock()
	if err != nil {
		a.metrics.errors.Inc()
		a.cfg.Logger.Error("the cards cannot be read", "error", err)
	} else {
		a.offer(sample{now, usedOf(cards)})
	}
	a.tell(current)
}

// usedOf leaves out what could not be read.
func usedOf(cards []device.Card) map[string]int64 {
	used := make(map[string]int64, len(cards))
	for _, c := range cards {
		if c.Total > 0 {
			used[c.UUID] = c.Used
		}
	}
	return used
}

// tell tells the sinks what they do not know yet.
func (a *Agent) tell(cards []device.Card) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ever && same(a.told, cards) {
		return
	}
	a.ever, a.told = true, cards
	for _, c := range cards {
		if !c.Healthy {
			a.cfg.Logger.Warn("a card takes no models", "card", c.UUID, "index", c.Index, "reason", c.Reason)
		}
	}
	for _, s := range a.cfg.Sinks {
		s.Set(cards)
	}
}

// watchSilence notices that no readings come.
func (a *Agent) watchSilence(ctx context.Context) {
	tick := time.NewTicker(Every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.mu.Lock()
		cards := a.tracker.now(a.cfg.Clock())
		a.mu.Unlock()
		if len(cards) > 0 {
			a.tell(cards)
		}
	}
}

// offer leaves the latest sample for the publisher, so that one that is slow
// delays nothing.
func (a *Agent) offer(s sample) {
	select {
	case <-a.samples:
	default:
	}
	a.samples <- s // only this goroutine puts any there
}

func (a *Agent) publish(ctx context.Context) {
	away := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-a.samples:
			if a.cfg.Publisher == nil {
				continue
			}
			err := a.cfg.Publisher.Publish(ctx, s.at, s.used)
			switch {
			case err == nil:
				a.metrics.published.Inc()
			case !errors.Is(err, context.Canceled):
				a.metrics.unpublished.Inc()
			}
			if (err != nil) != away && ctx.Err() == nil {
				away = err != nil
				if away {
					a.cfg.Logger.Warn("measured memory is not published; placement goes on by accounts alone", "error", err)
				} else {
					a.cfg.Logger.Info("measured memory is published again")
				}
			}
		}
	}
}

// Ready returns why nothing is known of the cards right now, if nothing is.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	age := a.cfg.Clock().Sub(a.tracker.last)
	switch {
	case a.tracker.last.IsZero():
		return errors.New("none has been read yet; the log says what was looked for")
	case age > SilenceLimit:
		return fmt.Errorf("the last reading is %s old: %s", age.Round(time.Second), a.tracker.why)
	}
	return nil
}

// view is what the metrics show.
func (a *Agent) view() (cards []device.Card, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tracker.now(a.cfg.Clock()), a.tracker.last
}
