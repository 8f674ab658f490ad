package scaler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// view is what one round looks at.
type view struct {
	live     []budget.Reservation // elastic, and not being released
	statuses map[budget.Ref]delivery.Status
	loads    Loads
	cards    []Card            // nil: nobody makes room
	warm     map[string]string // models that their pools keep a replica of, and why
}

// Round decides once for every model whose number of replicas may change.
func (s *Scaler) Round(ctx context.Context) error {
	done, ok := s.cfg.Doubt.Begin()
	if !ok {
		return nil // why is told elsewhere
	}
	defer done()
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	// 1. What pools keep ready.
	var errs []error
	if err := s.planWarm(ctx, &v); err != nil {
		errs = append(errs, err)
	}
	// 2. Each model by itself; one that fails does not keep the others.
	known := map[budget.Ref]bool{}
	for _, r := range v.live {
		known[r.Ref] = true
		if err := s.scale(ctx, v, r); err != nil {
			errs = append(errs, err)
		}
	}
	s.keep(known)
	errs = append(errs, s.settleWarm(ctx, v))
	// 3. Who found no card and has callers asks idle ones for theirs.
	if v.cards != nil {
		errs = append(errs, s.makeRoom(ctx, v))
	}
	return errors.Join(errs...)
}

// look reads the objects before the ledger: what was asked for through the
// ledger and stands on an object is then known here, too. The other way round a
// new minimum would be taken back as if nobody had asked for it.
func (s *Scaler) look(ctx context.Context) (v view, err error) {
	v.warm = map[string]string{}
	if s.nothing.Load() { // the ledger alone tells whether that has changed
		if live, err := s.elastic(ctx); err != nil || len(live) == 0 {
			return v, err
		}
	}
	list, err := s.cfg.Target.List(ctx)
	if err != nil {
		return v, fmt.Errorf("list the objects: %w: %w", ErrUnread, err)
	}
	if v.live, err = s.elastic(ctx); err != nil {
		return v, err
	}
	s.nothing.Store(len(v.live) == 0)
	v.statuses = make(map[budget.Ref]delivery.Status, len(list))
	for _, st := range list {
		if st.Exists && st.DeletingAt.IsZero() && st.Reason != delivery.NotOwned {
			v.statuses[st.Ref] = st
		}
	}
	if len(v.live) == 0 {
		return v, nil
	}
	if v.loads, err = s.cfg.Loads(ctx); err != nil {
		v.loads = Loads{Unheard: []string{err.Error()}}
	}
	if s.cfg.Cards != nil {
		if v.cards, err = s.cfg.Cards(ctx); err != nil {
			s.cfg.Logger.Warn("the cards cannot be read; nobody makes room in this round", "error", err)
			v.cards = nil
		}
	}
	return v, nil
}

// elastic are the models whose number of replicas may change.
func (s *Scaler) elastic(ctx context.Context) ([]budget.Reservation, error) {
	all, err := s.cfg.Ledger.List(ctx, budget.Filter{State: budget.Reserved})
	if err != nil {
		return nil, fmt.Errorf("list the live requests: %w", err)
	}
	return slices.DeleteFunc(all, func(r budget.Reservation) bool { return !r.Model.Elastic() || !r.ReleaseRequestedAt.IsZero() }), nil
}

// scale decides for one model and does what was decided, as far as it is ours.
func (s *Scaler) scale(ctx context.Context, v view, r budget.Reservation) error {
	st, there := v.statuses[r.Ref]
	if !there {
		return nil // not delivered yet
	}
	m := s.model(r.Ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := s.cfg.Clock()
	m.begin(st, now)
	load, heard := v.loads.Of[r.Ref]
	in := m.signals(v, r, st, load, heard)
	spec := s.spec(r, m)
	spec.Warm = v.warm[nameOf(r.Ref)]
	if done, err := s.letGo(ctx, m, r, st, load); done || err != nil {
		return err
	}
	d := elastic.Decide(spec, in, m.history, elastic.Budget{}, now)
	m.keep(d, load)
	if paused(r) || st.OtherScaler != "" || r.Model.Acts() != modelspec.ActuatorDirect { // one writes at a time
		return s.advise(ctx, m, r, st, d, load)
	}
	d, err := s.fund(ctx, &r, d, func(b elastic.Budget) elastic.Decision { return elastic.Decide(spec, in, m.history, b, now) })
	if ended(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pay for replicas of %s/%s: %w", r.Tenant, r.ID, err)
	}
	if d.Replicas > st.Asked && d.Replicas > st.Funded && st.Funded < r.Funded {
		m.wait(d) // what was just paid for is on its way to the object; then it is asked for
		return nil
	}
	err = s.write(ctx, m, r.Ref, st, d, busy(load))
	if errors.Is(err, delivery.ErrScaled) || errors.Is(err, budget.ErrNotFound) {
		return nil // a wake came between, or its end: the next round sees
	}
	if err != nil {
		return err
	}
	return s.giveBack(ctx, r, st, d.Replicas)
}

// advise is for models whose count somebody else writes: what is recommended
// is kept for people, and what is asked for is paid for. Between nothing and
// one replica it is ModelDock that acts, unless a person does.
func (s *Scaler) advise(ctx context.Context, m *model, r budget.Reservation, st delivery.Status, d elastic.Decision, load traffic.Load) error {
	crosses := (d.Reason == elastic.ReasonIdle || d.Reason == elastic.ReasonActivated || d.Reason == elastic.ReasonPrewarmed) && d.From != d.Replicas
	if crosses && s.mayWake(r) {
		err := s.write(ctx, m, r.Ref, st, d, busy(load))
		if errors.Is(err, delivery.ErrScaled) {
			return nil
		}
		return err
	}
	m.wait(d)
	if paused(r) {
		return nil
	}
	wanted := elastic.Decision{From: r.Funded, Replicas: min(st.Asked, r.Model.Replicas.Max)}
	paid, err := s.fund(ctx, &r, wanted, func(b elastic.Budget) elastic.Decision {
		return elastic.Decision{
			Replicas: r.Funded, Reason: elastic.ReasonBudget, LimitedBy: []string{elastic.ReasonBudget},
			Message: fmt.Sprintf("%d are asked for by %s, %d are funded: %s", st.Asked, r.Model.Acts(), r.Funded, b.Why),
		}
	})
	if ended(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pay for replicas of %s/%s: %w", r.Tenant, r.ID, err)
	}
	if paid.Reason == elastic.ReasonBudget {
		m.last.Reason, m.last.Message = paid.Reason, paid.Message
		m.last.LimitedBy = append(m.last.LimitedBy, elastic.ReasonBudget)
	}
	return s.giveBack(ctx, r, st, st.Asked)
}

// wait keeps a decision that changes nothing now: it is none for the rates.
func (m *model) wait(d elastic.Decision) {
	d.Next.Ups, d.Next.Downs = m.history.Ups, m.history.Downs
	m.history, m.last = d.Next, d
}

// write puts a decision into the object, if that changes anything.
func (s *Scaler) write(ctx context.Context, m *model, ref budget.Ref, st delivery.Status, d elastic.Decision, busy map[string]int) error {
	if d.Replicas != st.Asked {
		step := stepOf(d, st.Asked)
		step.Busy = busy
		if err := s.cfg.Target.Scale(ctx, ref, step); err != nil {
			return fmt.Errorf("scale %s/%s: %w", ref.Tenant, ref.ID, err)
		}
		s.cfg.Logger.Info("scaled", "tenant", ref.Tenant, "request", ref.ID, "from", step.From, "to", step.To, "reason", step.Reason, "message", step.Message)
		s.cfg.Metrics.changed(step)
		m.knows(step.At)
	}
	m.history, m.last = d.Next, d
	if d.Replicas != d.From {
		m.note = ""
	}
	return nil
}

func stepOf(d elastic.Decision, from int) delivery.ScalingStep {
	step := delivery.ScalingStep{At: d.At, From: from, To: d.Replicas, Reason: d.Reason, Message: d.Message, LimitedBy: d.LimitedBy}
	for _, in := range d.Inputs {
		step.Inputs = append(step.Inputs, delivery.ScalingInput(in))
	}
	return step
}

func busy(l traffic.Load) map[string]int {
	out := make(map[string]int, len(l.Replicas))
	for _, r := range l.Replicas {
		out[r.UID] = r.InFlight
	}
	return out
}
