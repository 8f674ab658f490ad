package budget

import (
	"fmt"
	"time"
)

// ReleaseStep is what a wish to release does to a reservation.
type ReleaseStep int

// The steps.
const (
	ReleaseNothing ReleaseStep = iota // final, or already asked for
	ReleaseCancel                     // it waited: it ends at once and never held slots
	ReleaseDelete                     // it holds slots: its object has to go first
)

// NextRelease decides what RequestRelease does. The delete intent is written
// even if the apply was not delivered: whoever holds the apply may be
// creating the object at this moment.
func NextRelease(r Reservation) ReleaseStep {
	switch {
	case r.State == Waiting:
		return ReleaseCancel
	case r.State == Reserved && r.ReleaseRequestedAt.IsZero():
		return ReleaseDelete
	}
	return ReleaseNothing
}

// Creditable returns nil if r's slots may be given back, given all its
// intents; otherwise an error that wraps ErrNotReleasable and names the
// condition that does not hold. Force waives the conditions on delivery.
func Creditable(r Reservation, intents []Intent, now time.Time, force bool) error {
	if r.State != Reserved {
		return fmt.Errorf("%w: request %s/%s is %s and holds no slots", ErrNotReleasable, r.Tenant, r.ID, r.State)
	}
	if r.ReleaseRequestedAt.IsZero() {
		return fmt.Errorf("%w: nobody asked to release request %s/%s", ErrNotReleasable, r.Tenant, r.ID)
	}
	if force {
		return nil
	}
	deleted := false
	for _, in := range intents {
		if in.Op == Delete && !in.DeliveredAt.IsZero() {
			deleted = true
		}
		if in.Op == Apply && in.Leased(now) {
			return fmt.Errorf("%w: %s may still be creating the object of request %s/%s until %s",
				ErrNotReleasable, in.LeaseOwner, r.Tenant, r.ID, in.LeaseUntil.UTC().Format(time.RFC3339))
		}
	}
	if !deleted {
		return fmt.Errorf("%w: the deletion of request %s/%s has not reached its target", ErrNotReleasable, r.Tenant, r.ID)
	}
	return nil
}

// Leased reports whether somebody works on the intent at now.
func (in Intent) Leased(now time.Time) bool {
	return in.DeliveredAt.IsZero() && in.LeaseOwner != "" && now.Before(in.LeaseUntil)
}

// Superseded is the LastError of an apply that a release overtook.
const Superseded = "superseded"
