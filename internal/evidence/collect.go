package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/traffic"
)

// Ledger is what the collector reads of account 1.
type Ledger interface {
	Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error)
	Standing(ctx context.Context, ref budget.Ref) (budget.Standing, error)
	Journal(ctx context.Context, ref budget.Ref) ([]budget.Entry, error)
	Intents(ctx context.Context, ref budget.Ref) ([]budget.Intent, error)
	Binding(ctx context.Context, ref budget.Ref) (budget.Binding, error)
	Keys(ctx context.Context) ([]budget.APIKey, error)
	Grants(ctx context.Context) ([]budget.Grant, error)
	Audit(ctx context.Context, limit int) ([]budget.AuditEntry, error)
}

// Observer is what the collector reads of account 2.
type Observer interface {
	Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error)
}

// Collector reads the facts of one reservation from the three accounts.
type Collector struct {
	Ledger Ledger
	Target Observer
	Store  Store
	// Endpoints may return some and an error, where not every gateway answers.
	Endpoints func(ref budget.Ref) ([]traffic.Endpoint, error)
	Clock     func() time.Time
	// Halted is why nothing is admitted, delivered or credited at present, or
	// empty; nil: never.
	Halted func() string
}

// Explain reads the facts and judges them. Errors: budget.ErrNotFound for an
// id that is not this tenant's; a part of the world that cannot be read makes
// its steps unknown and is no error.
//
// The facts are read one after another. Where the reservation moved on in the
// meantime they are read again: half of one moment and half of another would
// tell of a lost object or of a credit too many.
func (c Collector) Explain(ctx context.Context, ref budget.Ref) (Document, error) {
	f, err := c.facts(ctx, ref)
	for reads := 1; err == nil && reads < maxReads; reads++ {
		var now budget.Reservation
		if now, err = c.Ledger.Get(ctx, ref); err == nil && now.Revision == f.Reservation.Revision {
			break
		}
		if err == nil {
			f, err = c.facts(ctx, ref)
		}
	}
	if err != nil {
		return Document{}, err
	}
	return Build(f), nil
}

// maxReads bounds the reading again of a reservation that keeps changing.
const maxReads = 4

func (c Collector) facts(ctx context.Context, ref budget.Ref) (f Facts, err error) {
	f.Now = c.Clock()
	if c.Halted != nil {
		f.Halted = c.Halted()
	}
	if f.Reservation, err = c.Ledger.Get(ctx, ref); err != nil {
		return f, err
	}
	if err := c.readLedger(ctx, ref, &f); err != nil {
		return f, err
	}
	if err := c.readTraffic(ctx, ref, &f); err != nil {
		return f, err
	}
	c.readTarget(ctx, ref, &f)
	return f, nil
}

// readTarget makes what cannot be read a fact of its own.
func (c Collector) readTarget(ctx context.Context, ref budget.Ref, f *Facts) {
	var st delivery.Status
	if st, f.StatusErr = c.Target.Observe(ctx, ref); f.StatusErr != nil {
		return
	}
	if f.Binding != nil && st.Object.UID == f.Binding.UID {
		f.Last = st.Last
		if !st.Exists {
			f.LastFailure = st.LastFailure
		}
	}
	if !st.Exists {
		return
	}
	f.Sleeping = st.Sleeping()
	st.Replicas = awake(st.Replicas)
	f.Status = &st
	if target, more := c.Target.(delivery.Inspecting); more {
		var found delivery.Inspection
		if found, f.InspectErr = target.Inspect(ctx, st); f.InspectErr == nil {
			f.Inspection = &found
		}
	}
}

func (c Collector) readLedger(ctx context.Context, ref budget.Ref, f *Facts) (err error) {
	if f.Reservation.State == budget.Waiting {
		st, err := c.Ledger.Standing(ctx, ref)
		switch {
		case err == nil:
			f.Standing = &st
		case !errors.Is(err, budget.ErrFinal):
			return fmt.Errorf("read why the request waits: %w", err)
		default: // it was admitted between the two reads
			if f.Reservation, err = c.Ledger.Get(ctx, ref); err != nil {
				return err
			}
		}
	}
	if f.Journal, err = c.Ledger.Journal(ctx, ref); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if f.Intents, err = c.Ledger.Intents(ctx, ref); err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	b, err := c.Ledger.Binding(ctx, ref)
	switch {
	case err == nil:
		f.Binding = &b
	case !errors.Is(err, budget.ErrNotFound):
		return fmt.Errorf("read the binding: %w", err)
	}
	if err := c.readByHand(ctx, ref, f); err != nil {
		return err
	}
	return c.readAccess(ctx, ref, f)
}

func (c Collector) readAccess(ctx context.Context, ref budget.Ref, f *Facts) (err error) {
	keys, err := c.Ledger.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	for _, k := range keys {
		if k.Tenant == ref.Tenant && k.Live(f.Now) {
			f.LiveKeys++
		}
	}
	if f.Grants, err = c.Ledger.Grants(ctx); err != nil {
		return fmt.Errorf("read the grants: %w", err)
	}
	return nil
}

func (c Collector) readTraffic(ctx context.Context, ref budget.Ref, f *Facts) (err error) {
	f.Endpoints, f.EndpointsErr = c.Endpoints(ref)
	if f.First, f.Latest, err = c.Store.Chunks(ctx, ref); err != nil {
		return fmt.Errorf("read the first chunk: %w", err)
	}
	calls, err := c.Store.Inferences(ctx, ref, 1)
	if err != nil {
		return fmt.Errorf("read the latest call: %w", err)
	}
	if len(calls) > 0 {
		f.LastCall = &calls[0]
	}
	return nil
}

// awake leaves out the replicas whose engines sleep: nobody asks them to serve,
// so that they neither prove nor disprove that the model does.
func awake(all []delivery.Replica) []delivery.Replica {
	return slices.DeleteFunc(slices.Clone(all), func(r delivery.Replica) bool { return r.Phase == delivery.PhaseAsleep })
}
