package budget

import (
	"encoding/json"
	"fmt"

	"modeldock.io/internal/modelspec"
)

// MaxCap bounds quotas and pools: sums of slots stay exact everywhere, also
// in clients that know only floating point numbers.
const MaxCap = 1_000_000_000_000

// CheckCap returns a *modelspec.FieldError unless name is a valid tenant or
// pool (what kind says which) and limit a possible cap.
func CheckCap(kind, name string, limit int64) error {
	if err := modelspec.CheckName(kind, name); err != nil {
		return err
	}
	if limit < 0 || limit > MaxCap {
		return &modelspec.FieldError{Field: "cap", Message: fmt.Sprintf("cap must be an integer from 0 to %d slots; got %d", int64(MaxCap), limit)}
	}
	return nil
}

// MaxWarmDay bounds what is kept of a pool's day, in bytes.
const MaxWarmDay = 6000

// CheckWarm returns the canonical form of what a pool keeps ready, nil where
// it is nothing, or a *modelspec.FieldError.
func CheckWarm(pool string, warm modelspec.WarmPool) (*modelspec.WarmPool, error) {
	if err := modelspec.CheckName("pool", pool); err != nil {
		return nil, err
	}
	if warm.Empty() {
		return nil, nil //nolint:nilnil // nothing is kept
	}
	warm = warm.Canonical()
	return &warm, warm.Validate()
}

// CheckWarmDay refuses what does not fit.
func CheckWarmDay(pool, day string) error {
	if len(day) > MaxWarmDay || !json.Valid([]byte(day)) {
		return fmt.Errorf("keep the day of pool %s: it is no JSON, or longer than %d bytes (%d)", pool, MaxWarmDay, len(day))
	}
	return nil
}

// Bounds of an allow list.
const (
	maxAllowed     = 256
	maxAllowedSize = 1024
)

// CheckAllow returns a *modelspec.FieldError unless tenant is valid and allow
// is a list of non-empty entries.
func CheckAllow(tenant, what string, allow []string) error {
	if err := modelspec.CheckName("tenant", tenant); err != nil {
		return err
	}
	if len(allow) > maxAllowed {
		return &modelspec.FieldError{Field: "allow", Message: fmt.Sprintf("the %s of tenant %s are %d; at most %d are possible", what, tenant, len(allow), maxAllowed)}
	}
	for _, a := range allow {
		if a == "" || len(a) > maxAllowedSize {
			return &modelspec.FieldError{Field: "allow", Message: fmt.Sprintf("an entry in the %s of tenant %s is empty or longer than %d bytes", what, tenant, maxAllowedSize)}
		}
	}
	return nil
}
