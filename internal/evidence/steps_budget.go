package evidence

import (
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// Reasons of steps that no account names itself.
const (
	ReasonExpired             = "Expired"
	ReasonCancelled           = "CancelledWhileWaiting"
	ReasonJournalMismatch     = "JournalMismatch"
	ReasonNotYet              = "NotYet"
	ReasonLost                = "ObjectLost"
	ReasonReleasedBeforeReady = "ReleasedBeforeReady"
	ReasonNotRoutable         = "NotRoutable"
	ReasonNoLiveKey           = "NoLiveKey"
	ReasonNotCalled           = "NotCalled"
	ReasonNoContent           = "NoContent"
	ReasonStopping            = "Stopping"
	ReasonForcedRelease       = "ForcedRelease" // the slots came back while it still runs
	ReasonUnreadable          = "Unreadable"
)

func (f Facts) submitted() Step {
	r := f.Reservation
	return Step{Name: StepSubmitted, Status: OK, At: r.CreatedAt, Source: "ledger:reservation", Facts: map[string]any{
		"submits": r.Submits, "cost": r.Cost, "priority": r.Priority, "pool": r.Pool, "specHash": r.SpecHash,
		"model": r.Model.Name + "@" + r.Model.Version, "engine": string(r.Model.Engine),
	}}
}

func (f Facts) reserved() Step {
	r := f.Reservation
	s := Step{Name: StepReserved, Source: "ledger:journal"}
	if r.State == budget.Waiting {
		return f.waiting(s)
	}
	if r.ReservedAt.IsZero() {
		s.Status, s.Reason, s.At = Broken, ReasonCancelled, r.ReleasedAt
		if r.State == budget.Expired {
			s.Reason, s.At = ReasonExpired, r.ExpiresAt
		}
		return s
	}
	debits := f.count(budget.OpReserve)
	s.At = r.ReservedAt
	s.Facts = map[string]any{"debits": debits, "held": r.Held, "fundedReplicas": r.Funded, "pool": r.Pool}
	if grown := f.count(budget.OpGrow); grown > 0 {
		s.Facts["growths"], s.Facts["shrinks"] = grown, f.count(budget.OpShrink)
	}
	if r.Surplus() > 0 {
		s.Facts["awaitingCredit"] = r.Surplus() // of replicas that are ending
	}
	for _, e := range f.Journal {
		if e.Op == budget.OpReserve {
			s.Facts["slots"], s.Facts["revision"] = e.Slots, e.Revision
		}
	}
	if credits := f.count(budget.OpRelease); credits > 0 && r.ReleaseRequestedAt.IsZero() {
		s.Status, s.Reason = Broken, ReasonJournalMismatch
		s.Expected, s.Found = "no credit before a release is asked for", fmt.Sprintf("%d credits", credits)
		return s
	}
	if debits != 1 {
		s.Status, s.Reason = Broken, ReasonJournalMismatch
		s.Expected, s.Found = "1 debit in the journal", fmt.Sprintf("%d debits", debits)
		return s
	}
	if sum, fits := f.journalled(); !fits {
		s.Status, s.Reason = Broken, ReasonJournalMismatch
		s.Expected, s.Found = fmt.Sprintf("%d slots in the journal, which are held", r.Held), fmt.Sprintf("%d slots", sum)
		return s
	}
	s.Status = OK
	return s
}

// journalled sums the debits and credits up to the reservation's revision
// (later ones came after it was read), and reports whether that is what a
// reserved one holds. The end is judged by its own step.
func (f Facts) journalled() (sum int64, fits bool) {
	for _, e := range f.Journal {
		if e.Revision <= f.Reservation.Revision {
			sum += e.Slots
		}
	}
	return sum, f.Reservation.State != budget.Reserved || sum == f.Reservation.Held
}

func (f Facts) waiting(s Step) Step {
	s.Source = "ledger:tenant_quota,gpu_pool"
	if f.Standing == nil {
		s.Status, s.Reason = Unknown, ReasonUnreadable
		return s
	}
	st := *f.Standing
	s.Reason = string(st.Reason)
	s.Facts = map[string]any{
		"need": st.Need, "tenant": f.Reservation.Tenant, "tenantUsed": st.TenantUsed, "tenantCap": st.TenantCap,
		"pool": st.Pool, "poolUsed": st.PoolUsed, "poolCap": st.PoolCap, "ahead": st.Ahead,
	}
	switch st.Reason {
	case budget.QueuedBehind, budget.AwaitingAdmission, budget.TTLElapsed:
		s.Status = Pending
	default:
		s.Status = Broken
		s.Expected = fmt.Sprintf("%d free slots", st.Need)
		if st.Need == 1 {
			s.Expected = "1 free slot"
		}
		s.Found = fmt.Sprintf("tenant %d of %d used, pool %d of %d used", st.TenantUsed, st.TenantCap, st.PoolUsed, st.PoolCap)
	}
	return s
}

func (f Facts) deleting() Step {
	s := Step{Name: StepDeleting, Source: "ledger:outbox", Status: Pending, Reason: ReasonStopping, At: f.Reservation.ReleaseRequestedAt}
	intended := false
	for _, in := range f.Intents {
		if in.Op != budget.Delete {
			continue
		}
		intended = true
		s.Facts = map[string]any{"attempts": in.Attempts}
		if !in.DeliveredAt.IsZero() {
			s.Status, s.Reason = OK, ""
		} else if in.LastError != "" {
			s.Facts["lastError"] = in.LastError
		}
	}
	// A forced credit does not wait for the deletion, so that only a row that
	// is not kept any more is taken as done.
	if !intended && f.Reservation.State == budget.Released {
		s.Status, s.Reason = OK, ""
	}
	return f.byHand(s)
}

// gone is judged by what was seen, not by the credit: a forced one comes
// while replicas may still run.
func (f Facts) gone() Step {
	s := Step{Name: StepGone, Source: "target:object", Status: Pending, Reason: ReasonStopping}
	switch {
	case f.Binding != nil && !f.Binding.GoneAt.IsZero():
		s.Status, s.Reason, s.At = OK, "", f.Binding.GoneAt
	case f.StatusErr != nil:
		s.Status, s.Reason, s.Found = Unknown, ReasonUnreadable, f.StatusErr.Error()
	case f.Status != nil && f.Status.Exists:
		s.Facts = map[string]any{"replicasLeft": len(f.Status.Replicas)}
		if f.Reservation.State == budget.Released {
			s.Reason = ReasonForcedRelease
		}
		if f.Status.Reason == delivery.ReleaseBlocked {
			s.Status, s.Reason, s.Found = Broken, string(delivery.ReleaseBlocked), f.Status.Message
		}
	case f.Reservation.State == budget.Released && !f.forced():
		s.Status, s.Reason, s.At = OK, "", f.Reservation.ReleasedAt
	case f.Reservation.State == budget.Released:
		// Nothing is there any more; the time of that is still to be written down.
		s.Status, s.Reason = OK, ""
	}
	return s
}

// forced reports whether the slots came back before the last process was seen
// to be gone, which only an admin can decide. Nothing is known of what was
// never bound.
func (f Facts) forced() bool {
	b := f.Binding
	return f.Reservation.State == budget.Released && b != nil && (b.GoneAt.IsZero() || b.GoneAt.After(f.Reservation.ReleasedAt))
}

func (f Facts) credited() Step {
	credits := f.count(budget.OpRelease)
	s := Step{Name: StepCredited, Source: "ledger:journal", Facts: map[string]any{"credits": credits}}
	switch {
	case credits == 1 && f.Reservation.State == budget.Released:
		s.Status, s.At = OK, f.Reservation.ReleasedAt
		if f.forced() {
			s.Facts["forced"] = true
		}
	case credits == 0 && f.Reservation.State == budget.Reserved:
		s.Status, s.Reason = Pending, ReasonStopping
	default:
		s.Status, s.Reason = Broken, ReasonJournalMismatch
		s.Expected, s.Found = "1 credit in the journal", fmt.Sprintf("%d credits in state %s", credits, f.Reservation.State)
	}
	return s
}
