package app

import (
	"context"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // of warm pools, where the machine has no list of time zones

	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/traffic"
)

// ScalingOptions are the flags of who scales.
type ScalingOptions struct {
	Every     time.Duration // between two rounds
	Residence time.Duration // that a model has its card at least
}

// DefaultScalingOptions are the defaults of every flag.
func DefaultScalingOptions() ScalingOptions {
	return ScalingOptions{Every: scaler.DefaultPeriod, Residence: elastic.MinResidence}
}

func (o ScalingOptions) validate() error {
	var errs []error
	if o.Every < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--scale-every must be at least 100ms; got %s", o.Every))
	}
	if o.Residence < time.Second {
		errs = append(errs, fmt.Errorf("--min-residence must be at least 1s; got %s", o.Residence))
	}
	return errors.Join(errs...)
}

// wakeWait bounds what a wake may take.
const wakeWait = 10 * time.Second

// scalerConfig is what every scaler of this process shares.
func (c *control) scalerConfig(target scaler.Target, o ScalingOptions) scaler.Config {
	return scaler.Config{
		Ledger: c.ledger, Target: target, Concurrency: engine.Parallel, Doubt: &c.doubt,
		Period: o.Every, Residence: o.Residence, Clock: c.clock, Logger: c.log, Metrics: c.scaled,
	}
}

// buildScaler scales the models of this machine by what its own gateway and
// those of other processes say.
func (p *platform) buildScaler() {
	cfg := p.scalerConfig(p.machine, p.opts.Scaling)
	cfg.Loads = func(context.Context) (scaler.Loads, error) { return p.loads.together(p.gateway.Loads()), nil }
	cfg.Cards = p.scalerCards
	p.scaler = scaler.New(cfg)
}

// wake begins the start of a sleeping model at once and beside the call that
// asked for it.
func (p *platform) wake(w traffic.Wake) {
	if p.opts.Manual {
		return // the loops stand still
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wakeWait)
		defer cancel()
		if err := p.scaler.Wake(ctx, w); err != nil {
			p.log.Warn("a sleeping model is not woken; its gateway asks again", "owner", w.Owner, "model", w.Model, "error", err)
		}
	}()
}

// scalerCards are the cards of this machine as a scaler sees them.
func (p *platform) scalerCards(context.Context) ([]scaler.Card, error) {
	nodes, err := p.machine.Nodes()
	if err != nil {
		return nil, err
	}
	var out []scaler.Card
	for _, n := range nodes {
		for _, c := range n.Cards {
			if !c.Healthy {
				continue
			}
			card := scaler.Card{UUID: c.UUID, Node: n.Name, TotalMiB: c.Total, FreeMiB: c.FreeMiB}
			if c.Measured {
				card.MeasuredMiB = c.Used
			}
			for _, a := range c.Allocations {
				card.Holders = append(card.Holders, scaler.Holder{Replica: a.UID, MiB: a.MiB})
			}
			out = append(out, card)
		}
	}
	return out, nil
}
