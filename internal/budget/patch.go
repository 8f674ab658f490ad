package budget

import (
	"fmt"
	"reflect"

	"modeldock.io/internal/modelspec"
)

// Patch changes parts of a live request's model. Each part that is given
// replaces that part of the model as it stands; the others stay.
type Patch struct {
	Generation int64 // that the caller has seen; another one is refused
	Replicas   *modelspec.Replicas
	Scaling    *modelspec.Scaling
	Traffic    *modelspec.Traffic
	Cache      *modelspec.Cache
	ColdStart  *modelspec.ColdStart
}

// Of returns m with the patch's parts in it.
func (p Patch) Of(m modelspec.Model) modelspec.Model {
	if p.Replicas != nil {
		m.Replicas = *p.Replicas
	}
	if p.Scaling != nil {
		m.Scaling = p.Scaling.Canonical()
	}
	if p.Traffic != nil {
		m.Traffic = *p.Traffic
	}
	if p.Cache != nil {
		m.Cache = *p.Cache
	}
	if p.ColdStart != nil {
		m.ColdStart = *p.ColdStart
	}
	return m
}

// Amendment is the next generation of a reservation: another model, another
// number of funded replicas, or both. Take is what has to be debited for it
// beyond the slots that are held already; an amendment never gives slots back.
type Amendment struct {
	Model  modelspec.Model
	Funded int
	Take   int64
}

// Changes reports whether the amendment differs from r.
func (v Amendment) Changes(r Reservation) bool {
	return v.Funded != r.Funded || !reflect.DeepEqual(v.Model, r.Model)
}

// amend says what funding n replicas of m takes: slots that a shrink has not
// given back yet are used first.
func (r Reservation) amend(m modelspec.Model, n int) Amendment {
	return Amendment{Model: m, Funded: n, Take: max(0, slots(r.Cost, n)-r.Held)}
}

// NextPatch decides what Patch does to r. While it waits, only the model
// changes. Once it is reserved the funded replicas follow replicas.min as
// well: raised above what is funded, the difference is funded; lowered, the
// replicas above max(1, replicas.min) end; and there are never more than
// replicas.max. Errors: ErrFinal, ErrReleaseRequested, *StaleGenerationError,
// *modelspec.FieldError.
func NextPatch(r Reservation, p Patch) (Amendment, error) {
	if err := changeable(r); err != nil {
		return Amendment{}, err
	}
	if p.Generation != r.Generation {
		return Amendment{}, &StaleGenerationError{Ref: r.Ref, Have: r.Generation, Got: p.Generation}
	}
	m := p.Of(r.Model)
	if err := m.Validate(); err != nil {
		return Amendment{}, err
	}
	if r.State == Waiting {
		return Amendment{Model: m}, nil
	}
	n, floor := r.Funded, m.Replicas.Funded()
	if floor > n || floor < r.Model.Replicas.Funded() {
		n = floor
	}
	return r.amend(m, min(n, m.Replicas.Max)), nil
}

// changeable returns nil while r may still get another generation.
func changeable(r Reservation) error {
	switch {
	case r.State.Final():
		return fmt.Errorf("%w: request %s/%s is %s and cannot be changed any more; submit it under a new id", ErrFinal, r.Tenant, r.ID, r.State)
	case !r.ReleaseRequestedAt.IsZero():
		return fmt.Errorf("%w: request %s/%s is being released and cannot be changed any more; submit it under a new id", ErrReleaseRequested, r.Tenant, r.ID)
	}
	return nil
}

// StaleGenerationError says that the request has changed since the caller
// read it. Nothing was changed.
type StaleGenerationError struct {
	Ref  Ref
	Have int64
	Got  int64
}

func (e *StaleGenerationError) Error() string {
	return fmt.Sprintf("request %q is at generation %d; the change was made for generation %d: read the request again and repeat the change on what it says now", e.Ref.ID, e.Have, e.Got)
}
