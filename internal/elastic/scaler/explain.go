package scaler

import (
	"context"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
)

// Report says why a model has the number of replicas that it has.
type Report struct {
	Reservation budget.Reservation
	Status      delivery.Status
	Latest      *elastic.Decision // nil: none was made in this process
	Note        string            // of making room; empty: nothing
	Steps       []delivery.ScalingStep
	At          time.Time
}

// Explain reports on one model. Errors are those of the ledger.
func (s *Scaler) Explain(ctx context.Context, ref budget.Ref) (Report, error) {
	r, err := s.cfg.Ledger.Get(ctx, ref)
	if err != nil {
		return Report{}, err
	}
	rep := Report{Reservation: r, At: s.cfg.Clock()}
	if rep.Status, err = s.cfg.Target.Observe(ctx, ref); err != nil {
		return Report{}, err
	}
	rep.Steps = rep.Status.Scaling
	s.mu.Lock()
	m := s.models[ref]
	s.mu.Unlock()
	if m == nil {
		return rep, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rep.Note = m.note
	if !m.last.At.IsZero() {
		last := m.last
		rep.Latest = &last
	}
	return rep, nil
}
