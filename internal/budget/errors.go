package budget

import (
	"errors"
	"fmt"
)

// Errors of the ledger that callers tell apart with errors.Is.
var (
	// ErrNotFound: no such row for this tenant; nothing was changed.
	ErrNotFound = errors.New("not found")
	// ErrFinal: the reservation is released or expired and cannot change.
	ErrFinal = errors.New("the request is in a final state")
	// ErrNotReserved: the request holds no slots yet that could become more or fewer.
	ErrNotReserved = errors.New("the request is not reserved")
	// ErrReleaseRequested: a release was asked for, so nothing may be bound or changed any more.
	ErrReleaseRequested = errors.New("a release was requested")
	// ErrNotReleasable: the credit's conditions do not hold (yet).
	ErrNotReleasable = errors.New("the slots cannot be credited yet")
	// ErrLeaseLost: the outbox row is leased by somebody else, or already delivered.
	ErrLeaseLost = errors.New("the outbox lease was lost")
	// ErrUnavailable: the store could not answer; whether a write took effect
	// is unknown to the caller, who may repeat it.
	ErrUnavailable = errors.New("the ledger is unavailable")
)

// ConflictError says that the id exists with another payload. Nothing was changed.
type ConflictError struct {
	Ref   Ref
	Field string // the first field that differs
	Have  string
	Got   string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("request %q exists with %s %s; this one has %s: use another id, or release it and submit under a new id", e.Ref.ID, e.Field, e.Have, e.Got)
}

// ModelInUseError says that another live request of the tenant serves the same model
// name and version.
type ModelInUseError struct {
	Model   string
	Version string
	Holder  string // id of the live request
}

func (e *ModelInUseError) Error() string {
	return fmt.Sprintf("model %s@%s is already served by request %q: release that one, or choose another name or version", e.Model, e.Version, e.Holder)
}

// UnknownPoolError says that the pool does not exist.
type UnknownPoolError struct{ Pool string }

func (e *UnknownPoolError) Error() string { return fmt.Sprintf("pool %q does not exist", e.Pool) }

// BoundElsewhereError says that Ref is already bound to another UID, or that
// Ref is the other reservation that has Got's UID or name (INV3).
type BoundElsewhereError struct {
	Ref  Ref
	Have Object
	Got  Object
}

func (e *BoundElsewhereError) Error() string {
	if e.Have.UID == e.Got.UID {
		return fmt.Sprintf("object %s (uid %s) is bound to request %s/%s; it cannot also belong to another request", e.Have.Name, e.Have.UID, e.Ref.Tenant, e.Ref.ID)
	}
	return fmt.Sprintf("request %s/%s is bound to %s (uid %s); it cannot also be bound to uid %s", e.Ref.Tenant, e.Ref.ID, e.Have.Name, e.Have.UID, e.Got.UID)
}
