package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/budget"
)

// Difference is one thing that a ledger and the world do not agree about. It
// matters while the ledger may be an older copy: what the world knows better
// is then not repaired but shown.
type Difference struct {
	Ref    budget.Ref
	Object budget.Object // the one that is there, or the one that is missing
	Note   string

	drop    bool           // it is deleted if the ledger is taken as the truth
	restore budget.Binding // it is delivered again under this identity; empty: it is not
}

// Drops reports whether the object is deleted when the ledger is taken as the truth.
func (d Difference) Drops() bool { return d.drop }

// Compare walks ledger and target both ways, by id and UID, and changes nothing.
func (r *Reconciler) Compare(ctx context.Context) ([]Difference, error) {
	books, statuses, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	var out []Difference
	there := make(map[budget.Ref]bool, len(statuses))
	for _, st := range statuses {
		if st.Ledger != r.cfg.Instance || !st.Exists {
			continue
		}
		there[st.Ref] = true
		d, err := r.judge(ctx, st, books)
		if err != nil {
			return nil, fmt.Errorf("compare object %s: %w", st.Object.Name, err)
		}
		if d != nil {
			out = append(out, *d)
		}
	}
	for _, res := range books.reserved {
		if there[res.Ref] || !res.ReleaseRequestedAt.IsZero() {
			continue // judged above, or on its way out in both
		}
		bound, delivered := books.bound[res.Ref]
		if !delivered {
			continue // in both
		}
		out = append(out, Difference{Ref: res.Ref, Object: bound.Object, Note: "the ledger has it reserved and its object is gone", restore: bound})
	}
	return out, nil
}

// judge looks at one object of this ledger; nil: both say the same.
func (r *Reconciler) judge(ctx context.Context, st Status, books books) (*Difference, error) {
	res, live := books.live[st.Ref]
	if !live {
		return r.judgeUnpaid(ctx, st)
	}
	bound, delivered := books.bound[st.Ref]
	switch {
	case !delivered:
		// Delivery finds it by its name and binds it.
		return &Difference{Ref: st.Ref, Object: st.Object, Note: "the ledger does not know that it was delivered; it is bound when delivery goes on"}, nil
	case !res.ReleaseRequestedAt.IsZero():
		if bound.UID == st.Object.UID {
			return nil, nil // the delete goes on
		}
		return &Difference{Ref: st.Ref, Object: st.Object, Note: "the ledger has the request bound to uid " + bound.UID, drop: true}, nil
	case bound.UID != st.Object.UID:
		return &Difference{Ref: st.Ref, Object: st.Object, Note: "the ledger has the request bound to uid " + bound.UID, drop: true, restore: bound}, nil
	case st.Generation > res.Generation:
		note := fmt.Sprintf("it runs generation %d and the ledger knows %d", st.Generation, res.Generation)
		return &Difference{Ref: st.Ref, Object: st.Object, Note: note, drop: true, restore: bound}, nil
	case !st.DeletingAt.IsZero():
		return &Difference{Ref: st.Ref, Object: st.Object, Note: "it is being deleted and the ledger has it reserved", drop: true, restore: bound}, nil
	}
	return nil, nil
}

// judgeUnpaid looks at an object whose request held no slots when the ledger was read.
func (r *Reconciler) judgeUnpaid(ctx context.Context, st Status) (*Difference, error) {
	res, err := r.cfg.Ledger.Get(ctx, st.Ref)
	switch {
	case errors.Is(err, budget.ErrNotFound):
		return &Difference{Ref: st.Ref, Object: st.Object, Note: "the ledger holds no such request", drop: true}, nil
	case err != nil:
		return nil, err
	case res.State != budget.Reserved:
		return &Difference{Ref: st.Ref, Object: st.Object, Note: fmt.Sprintf("the ledger has the request %s, with no right to an object", res.State), drop: true}, nil
	}
	return &Difference{Ref: st.Ref, Object: st.Object, Note: "the request was admitted during this comparison; the next one sees it"}, nil
}

// goneLook is how often an object that must go is looked at.
const goneLook = 50 * time.Millisecond

// Accept makes the world what the ledger says, while everything else is
// halted: objects that it gives nobody are deleted by UID and waited for to
// their last process, and what it has reserved is delivered again under its
// identity. dropped hears of every object before it is deleted, and its error
// ends all. Accept may be repeated after a failure.
func (r *Reconciler) Accept(ctx context.Context, dropped func(Difference) error) ([]Difference, error) {
	found, err := r.Compare(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		if !d.drop {
			continue
		}
		if err := dropped(d); err != nil {
			return found, err
		}
		if err := r.cfg.Target.Delete(ctx, d.Ref, d.Object.UID); err != nil {
			return found, fmt.Errorf("delete object %s (uid %s): %w", d.Object.Name, d.Object.UID, err)
		}
	}
	for _, d := range found {
		if err := r.awaitGone(ctx, d); err != nil {
			return found, err
		}
	}
	for _, d := range found {
		if d.restore.UID == "" {
			continue
		}
		if err := r.again(ctx, d); err != nil {
			return found, fmt.Errorf("deliver request %s of tenant %s again: %w", d.Ref.ID, d.Ref.Tenant, err)
		}
	}
	return found, nil
}

func (r *Reconciler) awaitGone(ctx context.Context, d Difference) error {
	for d.drop {
		st, err := r.cfg.Target.Observe(ctx, d.Ref)
		if err != nil {
			return fmt.Errorf("look whether object %s is gone: %w", d.Object.Name, err)
		}
		if !st.Exists || st.Object.UID != d.Object.UID {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until object %s (uid %s) and its %d replicas are gone: %w", d.Object.Name, d.Object.UID, len(st.Replicas), context.Cause(ctx))
		case <-time.After(goneLook):
		}
	}
	return nil
}

func (r *Reconciler) again(ctx context.Context, d Difference) error {
	res, err := r.cfg.Ledger.Get(ctx, d.Ref)
	if err != nil || res.State != budget.Reserved || !res.ReleaseRequestedAt.IsZero() {
		return err // a release came meanwhile
	}
	seq, err := r.cfg.Stamp.stamp(ctx)
	if err != nil {
		return err
	}
	_, err = r.cfg.Target.Apply(ctx, r.desired(res, d.restore, seq))
	return err
}

// Few puts the first of many differences into words.
func Few(found []Difference) string {
	const shown = 3
	var out string
	for i, d := range found[:min(shown, len(found))] {
		if i > 0 {
			out += "; "
		}
		out += fmt.Sprintf("object %s (uid %s) of request %s/%s: %s", d.Object.Name, d.Object.UID, d.Ref.Tenant, d.Ref.ID, d.Note)
	}
	if more := len(found) - shown; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}

// CountDrops is how many objects would be deleted.
func CountDrops(found []Difference) int {
	return len(slices.DeleteFunc(slices.Clone(found), func(d Difference) bool { return !d.drop }))
}
