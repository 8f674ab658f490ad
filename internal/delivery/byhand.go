package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"modeldock.io/internal/budget"
)

// Honouring is a target whose objects are not its own records: other people
// can delete them, and that is honoured as a release. Nothing is ever made
// again there under a new UID.
//
// Such a target holds an object that is being deleted until it is told to let
// go, so that a deletion is seen, and known to the ledger, before the object
// disappears.
type Honouring interface {
	Target
	// LetGo lets an object that is being deleted disappear if no replica that
	// carried its UID is left. It does nothing to an object that is not being
	// deleted, that still has replicas, or that has another UID.
	LetGo(ctx context.Context, ref budget.Ref, uid string) error
}

// DeletedByHand is why a reservation ended that nobody asked ModelDock to end.
const DeletedByHand Reason = "DeletedByHand"

// ByHandAudit is what the audit row of such a release says was done.
func ByHandAudit(ref budget.Ref) string {
	return fmt.Sprintf("release %s/%s: %s", ref.Tenant, ref.ID, DeletedByHand)
}

// Holds reports whether the object of a UID is there, or any replica that
// carried it; an empty UID stands for whichever object there is. What an object
// says of itself can be edited, its UID cannot.
func (s Status) Holds(uid string) bool {
	return (s.Exists && (uid == "" || s.Object.UID == uid)) || (uid != "" && s.Foreign == uid) || slices.Contains(s.Earlier, uid)
}

// honourDeletions asks for the release of what somebody is deleting.
func (s *Settler) honourDeletions(ctx context.Context, statuses []Status, sum *Summary) error {
	if _, honours := s.cfg.Target.(Honouring); !honours || s.cfg.Doubt.Why() != "" {
		return nil
	}
	var errs []error
	for _, st := range statuses {
		if st.DeletingAt.IsZero() || st.Missing || st.Ledger != s.cfg.Instance {
			continue
		}
		why := fmt.Sprintf("the object %s (uid %s) was deleted by hand at %s, which ends the reservation", st.Object.Name, st.Object.UID, st.DeletingAt.UTC().Format("2006-01-02T15:04:05Z"))
		if err := releaseByHand(ctx, s.cfg.Ledger, st.Ref, st.Object, why, sum); err != nil {
			errs = append(errs, fmt.Errorf("honour the deletion of %s: %w", st.Object.Name, err))
		}
	}
	return errors.Join(errs...)
}

// letGo lets the object of a pending release disappear.
func (s *Settler) letGo(ctx context.Context, st Status) error {
	target, honours := s.cfg.Target.(Honouring)
	if !honours || st.Ledger != s.cfg.Instance || st.DeletingAt.IsZero() || len(st.Replicas) > 0 {
		return nil
	}
	return target.LetGo(ctx, st.Ref, st.Object.UID)
}

// releaseByHand records that a reservation's object was deleted by hand: from
// here on it is a release like any other. Whoever notices the same deletion
// later finds that a release was asked for.
func releaseByHand(ctx context.Context, ledger budget.Ledger, ref budget.Ref, obj budget.Object, why string, sum *Summary) error {
	r, err := ledger.Get(ctx, ref)
	if errors.Is(err, budget.ErrNotFound) {
		return nil
	}
	if err != nil || r.State != budget.Reserved || !r.ReleaseRequestedAt.IsZero() {
		return err
	}
	bound, err := ledger.Binding(ctx, ref)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return err
	}
	if err == nil && bound.UID != obj.UID {
		return nil // not what the reservation was delivered to
	}
	// The row first: a release without its reason could not be explained, and a
	// second row does no harm.
	if err := ledger.AppendAudit(ctx, budget.AuditEntry{Who: "delivery", What: ByHandAudit(ref), Why: why, Result: "ok", Tenant: ref.Tenant}); err != nil {
		return err
	}
	if _, err := ledger.RequestRelease(ctx, ref); err != nil {
		return err
	}
	sum.add(ref, "released", obj, why)
	return nil
}

// stillLost looks again at what an earlier list did not have: its release may
// have taken it away since the ledger was read, and the list of a target that
// follows another system may be a moment old.
func (r *Reconciler) stillLost(ctx context.Context, lost []lostObject) ([]lostObject, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	now, err := r.cfg.Ledger.List(ctx, budget.Filter{State: budget.Reserved})
	if err != nil {
		return nil, fmt.Errorf("look again for the requests of %d missing objects: %w", len(lost), err)
	}
	kept := make(map[budget.Ref]bool, len(now))
	for _, res := range now {
		kept[res.Ref] = res.ReleaseRequestedAt.IsZero()
	}
	_, honours := r.cfg.Target.(Honouring)
	var still []lostObject
	for _, l := range lost {
		if !kept[l.res.Ref] {
			continue
		}
		if !honours {
			still = append(still, l)
			continue
		}
		st, err := r.cfg.Target.Observe(ctx, l.res.Ref)
		if err != nil {
			return nil, fmt.Errorf("look again for object %s: %w", l.bound.Name, err)
		}
		if st.Foreign != l.bound.UID && (!st.Exists || st.Missing || st.Object.UID != l.bound.UID) {
			still = append(still, l)
		}
	}
	return still, nil
}

// endLost ends the reservation of an object that is gone where a deletion by
// hand is honoured. The slots come back as in every release: once, after the
// last replica.
func (r *Reconciler) endLost(ctx context.Context, l lostObject, sum *Summary) error {
	why := fmt.Sprintf("the object %s (uid %s) is gone: it was deleted by hand, which ends the reservation", l.bound.Name, l.bound.UID)
	return releaseByHand(ctx, r.cfg.Ledger, l.res.Ref, l.bound.Object, why, sum)
}

// letGo lets an object disappear that is being deleted and that no reservation
// waits for; the settler does the same for those of pending releases.
func (r *Reconciler) letGo(ctx context.Context, st Status) error {
	target, honours := r.cfg.Target.(Honouring)
	if !honours {
		return nil
	}
	res, err := r.cfg.Ledger.Get(ctx, st.Ref)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return err
	}
	if err == nil && res.State == budget.Reserved {
		bound, err := r.cfg.Ledger.Binding(ctx, st.Ref)
		if errors.Is(err, budget.ErrNotFound) || (err == nil && bound.UID == st.Object.UID) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return target.LetGo(ctx, st.Ref, st.Object.UID)
}
