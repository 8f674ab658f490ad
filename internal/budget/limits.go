package budget

import (
	"fmt"
	"slices"

	"modeldock.io/internal/modelspec"
)

// Limits bound what a tenant's callers may use of the gateways, and what the
// tenant may ask for. A figure of zero, an empty class and a missing priority
// mean: no limit. The ledger keeps them; gateways count, and Redis or their
// memory is where: it is never the truth of quota.
type Limits struct {
	// The first four count all keys of the tenant together, PerKey each by itself.
	RequestsPerMinute int64     `json:"requestsPerMinute,omitempty"`
	TokensPerMinute   int64     `json:"tokensPerMinute,omitempty"`
	Concurrency       int64     `json:"concurrency,omitempty"`
	TokensPerDay      int64     `json:"tokensPerDay,omitempty"` // by the UTC calendar
	PerKey            *Rates    `json:"perKey,omitempty"`
	WindowSeconds     int64     `json:"windowSeconds,omitempty"` // that the figures per minute are applied over; 0: a minute
	MaxPriority       *int      `json:"maxPriority,omitempty"`   // of its submits
	MaxClass          WaitClass `json:"maxClass,omitempty"`      // of its callers who wait for a replica
}

// Rates are the figures that gateways count against; see Limits.
type Rates struct {
	RequestsPerMinute int64 `json:"requestsPerMinute,omitempty"`
	TokensPerMinute   int64 `json:"tokensPerMinute,omitempty"`
	Concurrency       int64 `json:"concurrency,omitempty"`
	TokensPerDay      int64 `json:"tokensPerDay,omitempty"`
}

// Together are the figures for all keys of the tenant.
func (l Limits) Together() Rates {
	return Rates{l.RequestsPerMinute, l.TokensPerMinute, l.Concurrency, l.TokensPerDay}
}

// WaitClass is the priority class of a caller who waits for a replica.
type WaitClass string

// The classes, the one that is served first before the others.
const (
	ClassInteractive WaitClass = "interactive"
	ClassDefault     WaitClass = "default"
	ClassBatch       WaitClass = "batch"
)

// Bounds of limits.
const (
	MaxRate          = 1_000_000_000_000
	MaxConcurrency   = 1_000_000
	MaxWindowSeconds = 60
)

// Empty reports whether nothing is limited.
func (l Limits) Empty() bool {
	none := Rates{}
	return l.Together() == none && (l.PerKey == nil || *l.PerKey == none) && l.MaxPriority == nil && l.MaxClass == ""
}

// Clone returns limits that share nothing with l.
func (l Limits) Clone() Limits {
	if l.PerKey != nil {
		each := *l.PerKey
		l.PerKey = &each
	}
	if l.MaxPriority != nil {
		most := *l.MaxPriority
		l.MaxPriority = &most
	}
	return l
}

// CheckLimits returns a *modelspec.FieldError unless tenant is valid and
// limits are possible ones.
func CheckLimits(tenant string, l Limits) error {
	if err := modelspec.CheckName("tenant", tenant); err != nil {
		return err
	}
	if err := l.Together().check(""); err != nil {
		return err
	}
	if l.PerKey != nil {
		if err := l.PerKey.check("perKey."); err != nil {
			return err
		}
	}
	if l.WindowSeconds < 0 || l.WindowSeconds > MaxWindowSeconds {
		return &modelspec.FieldError{Field: "windowSeconds", Message: fmt.Sprintf("windowSeconds must be an integer from 1 to %d, or be left out for %d; got %d", MaxWindowSeconds, MaxWindowSeconds, l.WindowSeconds)}
	}
	if p := l.MaxPriority; p != nil && (*p < 0 || *p > MaxPriority) {
		return &modelspec.FieldError{Field: "maxPriority", Message: fmt.Sprintf("maxPriority must be an integer from 0 to %d, or be left out for no limit; got %d", MaxPriority, *p)}
	}
	if !slices.Contains([]WaitClass{"", ClassInteractive, ClassDefault, ClassBatch}, l.MaxClass) {
		return &modelspec.FieldError{Field: "maxClass", Message: fmt.Sprintf("maxClass must be interactive, default or batch, or be left out for no limit; got %q", string(l.MaxClass))}
	}
	return nil
}

func (r Rates) check(under string) error {
	for _, f := range []struct {
		field       string
		value, most int64
	}{
		{"requestsPerMinute", r.RequestsPerMinute, MaxRate},
		{"tokensPerMinute", r.TokensPerMinute, MaxRate},
		{"concurrency", r.Concurrency, MaxConcurrency},
		{"tokensPerDay", r.TokensPerDay, MaxRate},
	} {
		if f.value < 0 || f.value > f.most {
			return &modelspec.FieldError{
				Field:   under + f.field,
				Message: fmt.Sprintf("%s%s must be an integer from 1 to %d, or be left out for no limit; got %d", under, f.field, f.most, f.value),
			}
		}
	}
	return nil
}
