package local

import (
	"context"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

var _ delivery.Scalable = (*Target)(nil)

// Scale writes the number of replicas into the object's record, together with
// the reason, and returns; the loop does the rest.
func (t *Target) Scale(_ context.Context, ref budget.Ref, step delivery.ScalingStep) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[delivery.ObjectName(ref)]
	if o == nil || o.rec.ref() != ref || !o.rec.DeletingAt.IsZero() {
		return fmt.Errorf("scale request %s of tenant %s: it has no object here: %w", ref.ID, ref.Tenant, budget.ErrNotFound)
	}
	if t.closing {
		return fmt.Errorf("scale request %s of tenant %s: ModelDock is stopping", ref.ID, ref.Tenant)
	}
	if have := o.rec.asked(); have != step.From {
		return fmt.Errorf("scale request %s of tenant %s from %d to %d: %d are asked for: %w", ref.ID, ref.Tenant, step.From, step.To, have, delivery.ErrScaled)
	}
	next := o.rec
	next.Asked, next.Scaling = &step.To, delivery.Remember(o.rec.Scaling, step)
	if err := t.store.Save(next); err != nil {
		return fmt.Errorf("scale request %s of tenant %s: %w", ref.ID, ref.Tenant, err)
	}
	o.rec = next
	t.poke()
	return nil
}
