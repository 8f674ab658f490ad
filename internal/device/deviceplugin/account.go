package deviceplugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"modeldock.io/internal/device"
)

const (
	// readEvery is how often the kubelet is asked who holds chunks.
	readEvery = time.Second
	readWait  = 2 * time.Second
	// shownAfter is when the kubelet has told of every Pod that it took: a chunk
	// that was given longer ago and is held by none is free.
	shownAfter = 3 * time.Second
)

// Set implements agent.Sink.
func (p *Plugin) Set(cards []device.Card) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cards, p.set = cards, true
	p.divide()
}

func (p *Plugin) current() (devices []*pluginapi.Device, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.division.devices, p.changed
}

// divide needs the lock.
func (p *Plugin) divide() {
	given := make(map[string]bool, len(p.given))
	for id := range p.given {
		given[id] = true
	}
	before := p.division
	p.division = divide(p.cards, p.holders, p.read, given, p.cfg.ChunkMiB, p.cfg.Reserve)
	if !p.division.tells(before) {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	select {
	case <-p.ready:
	default:
		if p.set && p.asked {
			close(p.ready)
		}
	}
}

// give notes what the kubelet gives, or says why it must not.
func (p *Plugin) give(ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed := 0
	for _, id := range ids {
		if !p.division.open[id] {
			closed++
		}
	}
	if closed > 0 {
		p.metrics.refused.Inc()
		d := p.division
		return status.Error(codes.ResourceExhausted, fmt.Sprintf("%d of %d chunks of %d MiB cannot be given: the healthy cards of node %s have %d and Pods hold %d of them, the rest were those of cards that are sick or gone; make the Pod anew for another node, or when a card has recovered",
			closed, len(ids), p.cfg.ChunkMiB, p.cfg.Node, d.room, d.taken))
	}
	now := p.cfg.Clock()
	for _, id := range ids {
		p.given[id] = now
	}
	p.reader.forget(ids)
	p.divide()
	return nil
}

// follow keeps up with who holds chunks, until ctx ends.
func (p *Plugin) follow(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		p.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks who holds chunks. Without an answer, what was known counts, and what
// was given since.
func (p *Plugin) look(ctx context.Context) {
	p.looking.Lock() // an older answer must not come after a newer one
	defer p.looking.Unlock()
	began := p.cfg.Clock()
	asking, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	holders, unsure, err := p.reader.read(asking)
	if ctx.Err() != nil {
		return
	}
	p.answered(holders, err, began)
	p.tell(unsure, err)
}

// answered takes in what the kubelet said of holders when it was asked at began.
func (p *Plugin) answered(holders []holder, err error, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	if err == nil {
		p.took(holders, began)
	}
	p.divide()
}

// took needs the lock.
func (p *Plugin) took(holders []holder, began time.Time) {
	p.holders, p.read = holders, true
	shown := map[string]bool{}
	for _, h := range holders {
		for _, id := range h.ids {
			shown[id] = true
		}
	}
	for id, at := range p.given {
		if at.Before(began) && (shown[id] || began.Sub(at) > shownAfter) {
			delete(p.given, id)
		}
	}
}

// tell tells once of each failure, and of its end.
func (p *Plugin) tell(unsure, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	why := ""
	if err != nil {
		why = err.Error()
	} else if unsure != nil && p.division.sick { // otherwise it makes no difference
		why = unsure.Error()
	}
	p.metrics.known.Set(1)
	if err != nil {
		p.metrics.known.Set(0)
	}
	if why == p.why {
		return
	}
	p.why = why
	switch {
	case err != nil && !p.read:
		p.cfg.Logger.Warn("who holds GPU memory is not known; while a card is sick, nobody gets any", "error", err)
	case err != nil:
		p.cfg.Logger.Warn("who holds GPU memory is not known any more; what was known counts", "error", err)
	case why != "":
		p.cfg.Logger.Info("Pods whose cards are not known count on healthy ones", "error", unsure)
	default:
		p.cfg.Logger.Info("who holds GPU memory is known")
	}
}
