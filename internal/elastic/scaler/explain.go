package scaler

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
)

// Report says why a model has the number of replicas that it has.
type Report struct {
	Reservation budget.Reservation
	Status      delivery.Status
	Latest      *elastic.Decision // nil: there is nothing to decide, or nothing to decide by
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
	if m != nil {
		rep.Note, rep.Latest = m.told(rep.At.Add(-3 * s.cfg.Period))
	}
	changes := r.State == budget.Reserved && r.Model.Elastic() && rep.Status.Exists
	if rep.Latest == nil && changes && s.cfg.Loads != nil {
		rep.Latest = s.preview(ctx, r, rep.Status)
	}
	return rep, nil
}

// Signals are what is known of one model's load, for autoscalers outside.
func (s *Scaler) Signals(ctx context.Context, ref budget.Ref) (elastic.Signals, error) {
	r, err := s.cfg.Ledger.Get(ctx, ref)
	if err != nil {
		return elastic.Signals{}, fmt.Errorf("gather the signals of %s/%s: %w", ref.Tenant, ref.ID, err)
	}
	st, err := s.cfg.Target.Observe(ctx, ref)
	if err != nil {
		return elastic.Signals{}, fmt.Errorf("gather the signals of %s/%s: %w", ref.Tenant, ref.ID, err)
	}
	loads, err := s.cfg.Loads(ctx)
	if err != nil {
		return elastic.Signals{}, fmt.Errorf("gather the signals of %s/%s: %w", ref.Tenant, ref.ID, err)
	}
	m := s.model(ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	load, heard := loads.Of[ref]
	return m.signals(view{loads: loads}, r, st, load, heard), nil
}

// told is what is known of a model; a decision that is older is not.
func (m *model) told(since time.Time) (note string, latest *elastic.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.At.After(since) {
		last := m.last
		latest = &last
	}
	return m.note, latest
}

// preview is what would be decided now, where no round of this process
// decided of late: several processes may explain, one of them acts.
func (s *Scaler) preview(ctx context.Context, r budget.Reservation, st delivery.Status) *elastic.Decision {
	loads, err := s.cfg.Loads(ctx)
	if err != nil {
		return nil
	}
	m := newModel()
	m.begin(st, s.cfg.Clock())
	load, heard := loads.Of[r.Ref]
	in := m.signals(view{loads: loads}, r, st, load, heard)
	d := elastic.Decide(s.spec(r, m), in, m.history, elastic.Budget{}, s.cfg.Clock())
	return &d
}
