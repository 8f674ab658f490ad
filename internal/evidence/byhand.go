package evidence

import (
	"context"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// auditDepth is how many of the newest changes are searched for a deletion by
// hand; a reservation that ended before them no longer says why.
const auditDepth = 1000

// readByHand finds out whether a release was somebody's deletion of the object.
func (c Collector) readByHand(ctx context.Context, ref budget.Ref, f *Facts) error {
	if f.Reservation.ReleaseRequestedAt.IsZero() || f.Reservation.ReservedAt.IsZero() {
		return nil
	}
	audit, err := c.Ledger.Audit(ctx, auditDepth)
	if err != nil {
		return fmt.Errorf("read the audit: %w", err)
	}
	what := delivery.ByHandAudit(ref)
	for i := range audit {
		if audit[i].What == what {
			f.ByHand = &audit[i]
			return nil
		}
	}
	return nil
}

// byHand says in the step deleting that nobody asked ModelDock for it.
func (f Facts) byHand(s Step) Step {
	if f.ByHand == nil {
		return s
	}
	s.Reason = string(delivery.DeletedByHand)
	if s.Facts == nil {
		s.Facts = map[string]any{}
	}
	s.Facts["why"] = f.ByHand.Why
	return s
}
