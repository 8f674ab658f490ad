package budget

import (
	"fmt"

	"modeldock.io/internal/modelspec"
)

// MaxNumber bounds the numbers that a ledger gives out (arrival, journal,
// revisions, …): they are exact in every client, and there are more above them
// than will ever be needed.
const MaxNumber = 1<<53 - 1

// maxSlots is what one request can hold at most.
const maxSlots = MaxCost * modelspec.MaxReplicas

// Validate returns an error for a stored reservation that no submit and no
// change of it can have led to. The model of one that ended was judged by the
// version that took it, and nothing runs for it any more: of that, only what
// is computed with is judged.
func (r Reservation) Validate() error {
	s := Submission{Ref: r.Ref, Cost: r.Cost, Priority: r.Priority, Pool: r.Pool, TTL: r.ExpiresAt.Sub(r.CreatedAt), Model: r.Model}
	check := s.Validate
	if r.State.Final() {
		check = s.checkAccount
	}
	if err := check(); err != nil {
		return err
	}
	if n := r.Model.Replicas.Funded(); n > modelspec.MaxReplicas {
		return fmt.Errorf("replicas.min is %d; at most %d are possible", n, modelspec.MaxReplicas)
	}
	if err := checkFunded(r.Funded); err != nil {
		return err
	}
	if r.Held < 0 || r.Held > maxSlots {
		return fmt.Errorf("%d slots are held; one request holds from 0 to %d", r.Held, int64(maxSlots))
	}
	for _, n := range []struct {
		what  string
		value int64
	}{{"revision", r.Revision}, {"generation", r.Generation}, {"number of submits", r.Submits}} {
		if n.value < 1 || n.value > MaxNumber {
			return fmt.Errorf("the %s is %d; it goes from 1 to %d", n.what, n.value, int64(MaxNumber))
		}
	}
	return nil
}

func checkFunded(n int) error {
	if n < 0 || n > modelspec.MaxReplicas {
		return fmt.Errorf("%d replicas are funded; they go from 0 to %d", n, modelspec.MaxReplicas)
	}
	return nil
}

// Validate returns an error for an intent that asks a target for what no
// submit can have asked for.
func (in Intent) Validate() error {
	if err := checkFunded(in.Funded); err != nil {
		return err
	}
	if in.Op == Delete {
		return nil
	}
	return in.Model.Validate()
}

// Validate returns an error for an entry that no request can have caused.
func (e Entry) Validate() error {
	if e.Slots < -maxSlots || e.Slots > maxSlots {
		return fmt.Errorf("it moves %d slots; one request holds %d at most", e.Slots, int64(maxSlots))
	}
	if e.Revision < 1 || e.Revision > MaxNumber {
		return fmt.Errorf("its revision is %d; it goes from 1 to %d", e.Revision, int64(MaxNumber))
	}
	return nil
}
