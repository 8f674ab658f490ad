package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"modeldock.io/internal/budget"
)

// ReconcilerConfig is what a reconciler needs.
type ReconcilerConfig struct {
	Ledger   budget.Ledger
	Target   Target
	Instance string        // the ledger's incarnation
	Doubt    *Doubt        // raised and lowered here; may be nil
	Stamp    Stamper       // before every repair; nil: never
	Logger   *slog.Logger  // nil: slog.Default
	Every    time.Duration // 0: 1 min
	Compared func()        // hears of every round that compared everything; nil: nobody
}

// Reconciler walks ledger and target both ways, by id and UID, repairs what it
// may and reports the rest: lost (a reservation without its object), orphan
// (an object without a reservation) and drift (an object that runs for another
// number of replicas than is paid for).
type Reconciler struct{ cfg ReconcilerConfig }

// NewReconciler fills in defaults.
func NewReconciler(cfg ReconcilerConfig) *Reconciler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Minute
	}
	if cfg.Compared == nil {
		cfg.Compared = func() {}
	}
	return &Reconciler{cfg}
}

// Run reconciles now, on every wake and every minute until ctx ends.
func (r *Reconciler) Run(ctx context.Context, wake <-chan struct{}) {
	var told []Step
	keepRounds(ctx, wake, r.cfg.Every, r.cfg.Logger, func(ctx context.Context) (bool, error) {
		s, err := r.Round(ctx)
		was := told
		told = s.Steps
		for _, step := range s.Steps {
			if slices.Contains(was, step) {
				continue // said a minute ago
			}
			r.cfg.Logger.Warn("ledger and target differ", "what", step.Did, "tenant", step.Ref.Tenant, "id", step.Ref.ID, "object", step.Object.Name, "uid", step.Object.UID, "note", step.Note)
		}
		return false, err
	})
}

// Round compares everything once. With nothing to repair it writes nothing.
func (r *Reconciler) Round(ctx context.Context) (Summary, error) {
	var sum Summary
	done, ok := r.cfg.Doubt.Begin()
	if !ok {
		return sum, nil
	}
	defer done()
	books, statuses, err := r.read(ctx)
	if err != nil {
		return sum, err
	}
	there := make(map[budget.Ref]Status, len(statuses))
	strange := map[string]bool{} // UIDs of objects that do not say whose they are
	for _, st := range statuses {
		switch st.Ledger {
		case r.cfg.Instance:
			there[st.Ref] = st
		case "": // what names another ledger is left to that
			strange[st.Object.UID] = true
		}
	}
	var lost []lostObject
	var errs []error
	for _, res := range books.reserved {
		l, err := r.compare(ctx, res, books, there, strange, &sum)
		if err != nil {
			errs = append(errs, fmt.Errorf("reconcile request %s of tenant %s: %w", res.ID, res.Tenant, err))
		}
		if l != nil {
			lost = append(lost, *l)
		}
	}
	errs = append(errs, r.restore(ctx, lost, len(books.reserved), &sum))
	for _, st := range statuses {
		if err := r.orphan(ctx, st, books, &sum); err != nil {
			errs = append(errs, fmt.Errorf("reconcile object %s: %w", st.Object.Name, err))
		}
	}
	r.cfg.Compared()
	return sum, errors.Join(errs...)
}

type lostObject struct {
	res   budget.Reservation
	bound budget.Binding
}

// compare looks at one reservation that holds slots.
func (r *Reconciler) compare(ctx context.Context, res budget.Reservation, books books, there map[budget.Ref]Status, strange map[string]bool, sum *Summary) (*lostObject, error) {
	if !res.ReleaseRequestedAt.IsZero() {
		return nil, nil // the relay and the settler are at it
	}
	bound, delivered := books.bound[res.Ref]
	if !delivered {
		return nil, nil
	}
	st, exists := there[res.Ref]
	note := "the object does not say any more that it belongs to this request"
	if exists && st.Object.UID == bound.UID && !st.Missing {
		var err error
		if note, err = r.drifted(ctx, res, bound, st); err != nil || note == "" {
			return nil, err
		}
	} else if !strange[bound.UID] {
		return &lostObject{res, bound}, nil
	}
	underWay, err := r.undelivered(ctx, res.Ref)
	if err != nil || underWay {
		return nil, err
	}
	// The list is a moment old: what was changed and delivered since is no drift.
	if now, err := r.cfg.Ledger.Get(ctx, res.Ref); err != nil || now.Revision != res.Revision {
		return nil, err
	}
	seq, err := r.cfg.Stamp.stamp(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.cfg.Target.Apply(ctx, r.desired(res, bound, seq)); err != nil {
		sum.add(res.Ref, "drift", bound.Object, fmt.Sprintf("%s; cannot be repaired: %v", note, err))
		return nil, nil
	}
	sum.add(res.Ref, "drift", bound.Object, note+"; applied again")
	return nil, nil
}

// drifted says what of an object is not as it was delivered; empty: nothing.
func (r *Reconciler) drifted(ctx context.Context, res budget.Reservation, bound budget.Binding, st Status) (string, error) {
	if !st.DeletingAt.IsZero() {
		return "", nil
	}
	if st.Funded != res.Funded || !res.Model.Elastic() && st.Wanted != res.Funded {
		return fmt.Sprintf("the object runs %d replicas, at most %d, and %d are paid for", st.Wanted, st.Funded, res.Funded), nil
	}
	if target, compares := r.cfg.Target.(Comparing); compares {
		return target.Differs(ctx, r.desired(res, bound, 0))
	}
	return "", nil
}

func (r *Reconciler) undelivered(ctx context.Context, ref budget.Ref) (bool, error) {
	intents, err := r.cfg.Ledger.Intents(ctx, ref)
	return slices.ContainsFunc(intents, func(in budget.Intent) bool { return in.DeliveredAt.IsZero() }), err
}

func (r *Reconciler) desired(res budget.Reservation, bound budget.Binding, seq int64) Desired {
	return Desired{
		Ref: res.Ref, Ledger: r.cfg.Instance, Name: ObjectName(res.Ref), Generation: res.Generation,
		Model: res.Model, Funded: res.Funded, UID: bound.UID, JournalSeq: seq,
	}
}

// restore brings lost objects back under their bound UID, or, where a target
// honours deletions by hand, ends their reservations, unless so many are lost
// that the view itself is doubted. Slots are never given back here.
func (r *Reconciler) restore(ctx context.Context, lost []lostObject, total int, sum *Summary) error {
	lost, err := r.stillLost(ctx, lost)
	if err != nil {
		return err
	}
	why := unbelievable(len(lost), total)
	r.cfg.Doubt.set(why)
	if why != "" {
		sum.add(budget.Ref{}, "doubted", budget.Object{}, why)
		return nil
	}
	var errs []error
	_, honours := r.cfg.Target.(Honouring)
	for _, l := range lost {
		if honours {
			errs = append(errs, r.endLost(ctx, l, sum))
			continue
		}
		note, err := r.restoreOne(ctx, l)
		if err != nil {
			errs = append(errs, fmt.Errorf("restore the object of request %s of tenant %s: %w", l.res.ID, l.res.Tenant, err))
		}
		if note != "" {
			sum.add(l.res.Ref, "lost", l.bound.Object, note)
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) restoreOne(ctx context.Context, l lostObject) (string, error) {
	// The lists are a moment old by now.
	now, err := r.cfg.Ledger.Get(ctx, l.res.Ref)
	if err != nil || now.State != budget.Reserved || !now.ReleaseRequestedAt.IsZero() {
		return "", err
	}
	st, err := r.cfg.Target.Observe(ctx, l.res.Ref)
	if err != nil || (st.Exists && st.Object.UID == l.bound.UID) {
		return "", err
	}
	if st.Exists {
		return fmt.Sprintf("the bound object (uid %s) is gone and another one (uid %s) has its name, which was left alone; release the request to get its slots back", l.bound.UID, st.Object.UID), nil
	}
	seq, err := r.cfg.Stamp.stamp(ctx)
	if err != nil {
		return "", err
	}
	obj, err := r.cfg.Target.Apply(ctx, r.desired(now, l.bound, seq))
	if err != nil {
		return fmt.Sprintf("the object is gone and cannot be restored: %v", err), nil
	}
	if obj.UID == l.bound.UID {
		return "the object was gone; it was restored under the same uid", nil
	}
	return "the object is gone; release the request to get its slots back", r.cfg.Target.Delete(ctx, l.res.Ref, obj.UID)
}

// orphan looks at one object from the target's side. It is deleted only if it
// belongs to this ledger and its reservation has ended; whatever else has no
// reservation is reported and left alone.
func (r *Reconciler) orphan(ctx context.Context, st Status, books books, sum *Summary) error {
	if st.Ledger != r.cfg.Instance {
		sum.add(st.Ref, "foreign", st.Object, fmt.Sprintf("belongs to ledger %q and not to %q; left alone", st.Ledger, r.cfg.Instance))
		return nil
	}
	if st.Missing {
		return nil
	}
	if !st.DeletingAt.IsZero() {
		return r.letGo(ctx, st)
	}
	if _, live := books.live[st.Ref]; live {
		return nil // if that ended since, the next round sees it
	}
	res, err := r.cfg.Ledger.Get(ctx, st.Ref)
	switch {
	case errors.Is(err, budget.ErrNotFound):
		sum.add(st.Ref, "orphan", st.Object, "the ledger has no such request; left alone, because the ledger may be an older copy")
		return nil
	case err != nil:
		return err
	case res.State.Final():
		sum.add(st.Ref, "orphan", st.Object, fmt.Sprintf("the request is %s; the object is deleted", res.State))
		return r.cfg.Target.Delete(ctx, st.Ref, st.Object.UID)
	case res.State == budget.Waiting:
		sum.add(st.Ref, "orphan", st.Object, "the request is still waiting and has no right to an object; left alone")
	}
	return nil
}
