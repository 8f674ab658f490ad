package scaler

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// WarmReport says what a pool keeps ready, and what that costs and buys.
type WarmReport struct {
	Pool     string
	Settings modelspec.WarmPool
	Day      elastic.WarmDay
	Plan     elastic.WarmPlan
	Next     *elastic.WarmGain // what one more GPU-hour would buy; nil: nothing
	Buffered bool              // there is a cluster to keep buffers on
}

// WarmPools reports on every pool that keeps something ready.
func (s *Scaler) WarmPools(ctx context.Context) ([]WarmReport, error) {
	pools, err := s.cfg.Ledger.Pools(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what the pools keep ready: %w", err)
	}
	var out []WarmReport
	var v view
	for _, p := range pools {
		if p.Warm == nil {
			continue
		}
		if v.statuses == nil {
			if v, err = s.look(ctx); err != nil {
				return nil, err
			}
		}
		out = append(out, s.warmReport(v, p))
	}
	return out, nil
}

func (s *Scaler) warmReport(v view, p budget.Pool) WarmReport {
	now := s.cfg.Clock()
	rep := WarmReport{Pool: p.Name, Settings: *p.Warm, Day: dayOf(p), Buffered: s.cfg.Buffers != nil}
	s.warm.mu.Lock()
	if w := s.warm.of[p.Name]; w != nil && w.day.At.After(rep.Day.At) {
		rep.Day = w.day
	}
	s.warm.mu.Unlock()
	if today := now.In(p.Warm.Zone()).Format(time.DateOnly); rep.Day.Day != today {
		rep.Day = elastic.WarmDay{Day: today, At: rep.Day.At, Buffers: rep.Day.Buffers}
	}
	models := s.warmModels(v, p.Name, s.peek)
	rep.Plan = elastic.KeepWarm(rep.Settings, rep.Day.GPUHours(), models, now)
	rep.Next = elastic.NextHour(rep.Settings, rep.Day, rep.Plan, models, now)
	return rep
}

// peek is what is known of a model; asking for it makes nothing known.
func (s *Scaler) peek(ref budget.Ref) *model {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[ref]; m != nil {
		return m
	}
	return newModel()
}
