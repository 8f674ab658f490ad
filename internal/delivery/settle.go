package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"modeldock.io/internal/budget"
)

// SettlerConfig is what a settler needs.
type SettlerConfig struct {
	Ledger   budget.Ledger
	Target   Target
	Instance string             // the ledger's incarnation
	Doubt    *Doubt             // may be nil
	Stamp    Stamper            // after credits; nil: never
	Logger   *slog.Logger       // nil: slog.Default
	Poll     time.Duration      // 0: 1 s
	Crash    func(point string) // nil: never
}

// Settler brings the ledger up to date with what the target sees: who was
// ready, where it was placed, and whose slots come back because everything of
// it is gone.
type Settler struct {
	cfg SettlerConfig

	mu   sync.Mutex
	told map[string]bool       // UIDs whose readiness the ledger knows
	seen map[string]budget.Ref // objects that were there, by UID; nil before the first round
}

// NewSettler fills in defaults.
func NewSettler(cfg SettlerConfig) *Settler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Poll <= 0 {
		cfg.Poll = time.Second
	}
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	return &Settler{cfg: cfg, told: map[string]bool{}}
}

// Run settles until ctx ends.
func (s *Settler) Run(ctx context.Context, wake <-chan struct{}) {
	keepRounds(ctx, wake, s.cfg.Poll, s.cfg.Logger, func(ctx context.Context) (bool, error) {
		began := time.Now()
		_, err := s.Round(ctx, 0)
		// A thousand changes wake it as often, and every round looks at all:
		// a tenth of the time at most.
		select {
		case <-ctx.Done():
		case <-time.After(min(9*time.Since(began), 2*s.cfg.Poll)):
		}
		return false, err
	})
}

// Round settles everything that can be settled now, at most n credits (0: all).
func (s *Settler) Round(ctx context.Context, n int) (Summary, error) {
	var sum Summary
	done, ok := s.cfg.Doubt.Begin()
	if !ok {
		return sum, nil
	}
	defer done()
	statuses, listErr := s.cfg.Target.List(ctx)
	if listErr != nil {
		listErr = fmt.Errorf("list the target's objects: %w", listErr)
	} else {
		listErr = errors.Join(s.recordReady(ctx, statuses, &sum), s.honourDeletions(ctx, statuses, &sum))
	}
	creditErr := s.creditAll(ctx, n, &sum)
	if listErr != nil {
		return sum, errors.Join(listErr, creditErr)
	}
	return sum, errors.Join(creditErr, s.markForced(ctx, statuses, &sum))
}

// recordReady writes down the first readiness of every object, and its node.
func (s *Settler) recordReady(ctx context.Context, statuses []Status, sum *Summary) error {
	s.forgetAllBut(statuses)
	var errs []error
	for _, st := range statuses {
		if !st.EverReady() || st.Ledger != s.cfg.Instance || s.knows(st.Object.UID) {
			continue
		}
		if err := s.markReady(ctx, st); err != nil {
			errs = append(errs, fmt.Errorf("record that %s is ready: %w", st.Object.Name, err))
			continue
		}
		sum.add(st.Ref, "ready", st.Object, st.Message)
	}
	return errors.Join(errs...)
}

func (s *Settler) markReady(ctx context.Context, st Status) error {
	b, err := s.cfg.Ledger.Binding(ctx, st.Ref)
	if errors.Is(err, budget.ErrNotFound) || (err == nil && b.UID != st.Object.UID) {
		return nil // bound later, or somebody else's: looked at again then
	}
	if err != nil {
		return err
	}
	if !b.EverReady {
		if err := s.cfg.Ledger.MarkReady(ctx, st.Ref, st.Object.UID); err != nil {
			return err
		}
	}
	if node := firstNode(st); node != "" {
		if err := s.cfg.Ledger.SetNode(ctx, st.Ref, node); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[st.Object.UID] = true
	return nil
}

func firstNode(st Status) string {
	i := slices.IndexFunc(st.Replicas, func(r Replica) bool { return r.Node != "" && len(r.Cards) > 0 })
	if i < 0 {
		return ""
	}
	return st.Replicas[i].Node
}

func (s *Settler) knows(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[uid]
}

// forgetAllBut keeps the memory no larger than the target.
func (s *Settler) forgetAllBut(statuses []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := make(map[string]bool, len(statuses))
	for _, st := range statuses {
		if s.told[st.Object.UID] {
			keep[st.Object.UID] = true
		}
	}
	s.told = keep
}

// creditAll gives slots back: of objects that are gone with their last
// replica, and of replicas that a shrink has ended.
func (s *Settler) creditAll(ctx context.Context, n int, sum *Summary) error {
	if why := s.cfg.Doubt.Why(); why != "" {
		return fmt.Errorf("credit slots: %s", why)
	}
	var errs []error
	credited := 0
	for _, kind := range []struct {
		filter budget.Filter
		credit func(context.Context, budget.Reservation, *Summary) (bool, error)
	}{
		{budget.Filter{State: budget.Reserved, ReleasePending: true}, s.credit},
		{budget.Filter{State: budget.Reserved, ShrinkPending: true}, s.creditShrink},
	} {
		pending, err := s.cfg.Ledger.List(ctx, kind.filter)
		if err != nil {
			errs = append(errs, fmt.Errorf("list whose slots may come back: %w", err))
		}
		for _, r := range pending {
			if n > 0 && credited == n {
				return errors.Join(errs...)
			}
			done, err := kind.credit(ctx, r, sum)
			if err != nil {
				errs = append(errs, fmt.Errorf("credit request %s of tenant %s: %w", r.ID, r.Tenant, err))
			}
			if done {
				credited++
			}
		}
	}
	if credited > 0 {
		// A copy from before a credit must not credit once more unnoticed.
		_, err := s.cfg.Stamp.stamp(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Settler) credit(ctx context.Context, r budget.Reservation, sum *Summary) (bool, error) {
	// 1. The target was told, and nothing can be created behind our back.
	told, err := s.deleteDelivered(ctx, r.Ref)
	if err != nil || !told {
		return false, err
	}
	// 2. Nothing of it is left.
	bound, err := s.cfg.Ledger.Binding(ctx, r.Ref)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return false, err
	}
	st, err := s.cfg.Target.Observe(ctx, r.Ref)
	if err != nil {
		return false, err
	}
	if st.Holds(bound.UID) {
		return false, s.letGo(ctx, st)
	}
	// 3. It may have been ready between two rounds only.
	if bound.UID != "" && st.Object.UID == bound.UID && st.EverReady() {
		if err := s.markReady(ctx, st); err != nil {
			return false, fmt.Errorf("record that %s was ready: %w", bound.Name, err)
		}
	}
	// 4. One credit, whoever else tries the same.
	if bound.UID != "" && bound.GoneAt.IsZero() {
		if err := s.cfg.Ledger.MarkGone(ctx, r.Ref, bound.UID); err != nil {
			return false, err
		}
	}
	s.cfg.Crash(CrashBeforeCredit)
	_, err = s.cfg.Ledger.Credit(ctx, r.Ref, false)
	if errors.Is(err, budget.ErrNotReleasable) {
		return false, nil // an apply is still under way; the next round sees
	}
	if err != nil {
		return false, err
	}
	sum.add(r.Ref, "credited", bound.Object, fmt.Sprintf("%d slots", r.Held))
	return true, nil
}

func (s *Settler) deleteDelivered(ctx context.Context, ref budget.Ref) (bool, error) {
	intents, err := s.cfg.Ledger.Intents(ctx, ref)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(intents, func(in budget.Intent) bool {
		return in.Op == budget.Delete && !in.DeliveredAt.IsZero()
	}), nil
}

// creditShrink gives back what a request holds beyond its funded replicas,
// once the target shows that no more than those exist.
func (s *Settler) creditShrink(ctx context.Context, r budget.Reservation, sum *Summary) (bool, error) {
	bound, err := s.cfg.Ledger.Binding(ctx, r.Ref)
	if errors.Is(err, budget.ErrNotFound) {
		return false, nil // not delivered yet
	}
	if err != nil {
		return false, err
	}
	st, err := s.cfg.Target.Observe(ctx, r.Ref)
	if err != nil || !shrunk(st, bound, r) {
		return false, err
	}
	s.cfg.Crash(CrashBeforeCredit)
	_, err = s.cfg.Ledger.CreditShrink(ctx, r.Ref, r.Generation)
	if errors.Is(err, budget.ErrNotReleasable) {
		return false, nil // it changed meanwhile, or its apply is under way; the next round sees
	}
	if err != nil {
		return false, err
	}
	sum.add(r.Ref, "credited", bound.Object, fmt.Sprintf("%d slots of ended replicas; %d stay held for %d", r.Surplus(), r.Held-r.Surplus(), r.Funded))
	return true, nil
}

// shrunk reports whether the target runs the reservation's latest generation,
// or a later one, and no replica beyond the funded ones exists any more, also
// none that is terminating.
func shrunk(st Status, bound budget.Binding, r budget.Reservation) bool {
	return st.Exists && st.Object.UID == bound.UID && st.Generation >= r.Generation &&
		st.Wanted <= r.Funded && st.Processes() <= r.Funded
}
