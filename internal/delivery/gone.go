package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"modeldock.io/internal/budget"
)

// forcedWindow is how far back a starting settler looks for credits that were
// forced while something still ran.
const forcedWindow = 24 * time.Hour

// markForced records the end of objects whose slots were given back by force:
// that credit did not wait for the last process, and the ledger learns only
// here when it was gone. An object that was seen and is not there any more is
// followed up; the first round also asks the ledger, for what an earlier run
// of ModelDock had seen.
func (s *Settler) markForced(ctx context.Context, statuses []Status, sum *Summary) error {
	if s.cfg.Doubt.Why() != "" {
		return nil // what is missing is not believed to be gone
	}
	vanished, err := s.vanished(ctx, statuses)
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	for uid, ref := range vanished {
		settled, err := s.markForcedOne(ctx, ref, uid, sum)
		if err != nil {
			errs = append(errs, fmt.Errorf("record that the object of request %s of tenant %s is gone: %w", ref.ID, ref.Tenant, err))
		}
		if settled {
			s.mu.Lock()
			delete(s.seen, uid)
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// vanished are the objects that were there once and are not any more, by UID.
func (s *Settler) vanished(ctx context.Context, statuses []Status) (map[string]budget.Ref, error) {
	s.mu.Lock()
	first := s.seen == nil
	s.mu.Unlock()
	var earlier map[string]budget.Ref
	if first {
		var err error
		if earlier, err = s.forcedEarlier(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = earlier
	}
	there := map[string]bool{}
	for _, st := range statuses {
		if st.Ledger == s.cfg.Instance && st.Exists {
			there[st.Object.UID] = true
			s.seen[st.Object.UID] = st.Ref
		}
	}
	out := maps.Clone(s.seen)
	maps.DeleteFunc(out, func(uid string, _ budget.Ref) bool { return there[uid] })
	return out, nil
}

func (s *Settler) forcedEarlier(ctx context.Context) (map[string]budget.Ref, error) {
	out := map[string]budget.Ref{}
	released, err := s.cfg.Ledger.List(ctx, budget.Filter{State: budget.Released})
	if err != nil {
		return nil, fmt.Errorf("list released requests: %w", err)
	}
	var newest time.Time
	for _, r := range released {
		if r.ReleasedAt.After(newest) {
			newest = r.ReleasedAt
		}
	}
	for _, r := range released {
		if r.ReservedAt.IsZero() || newest.Sub(r.ReleasedAt) > forcedWindow {
			continue
		}
		b, err := s.cfg.Ledger.Binding(ctx, r.Ref)
		switch {
		case errors.Is(err, budget.ErrNotFound):
		case err != nil:
			return nil, err
		case b.GoneAt.IsZero():
			out[b.UID] = r.Ref
		}
	}
	return out, nil
}

// markForcedOne reports whether nothing is left to do about an object.
func (s *Settler) markForcedOne(ctx context.Context, ref budget.Ref, uid string, sum *Summary) (bool, error) {
	r, err := s.cfg.Ledger.Get(ctx, ref)
	if errors.Is(err, budget.ErrNotFound) {
		return true, nil // another ledger's past
	}
	if err != nil || !r.State.Final() {
		return false, err // the credit marks it
	}
	b, err := s.cfg.Ledger.Binding(ctx, ref)
	if errors.Is(err, budget.ErrNotFound) || (err == nil && (b.UID != uid || !b.GoneAt.IsZero())) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	st, err := s.cfg.Target.Observe(ctx, ref)
	if err != nil || st.Holds(uid) {
		return false, err
	}
	if err := s.cfg.Ledger.MarkGone(ctx, ref, uid); err != nil {
		return false, err
	}
	sum.add(ref, "gone", b.Object, "its slots had been given back by force")
	return true, nil
}
