package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"modeldock.io/internal/modelspec"
)

// hashVersion stands before every hash, so that a later change of the
// canonical form can be told from a changed payload.
const hashVersion = "v1:"

// Validate returns a *modelspec.FieldError for the first field that is out of
// bounds, or nil. Ledgers call it too: nothing unchecked becomes a row.
func (s Submission) Validate() error {
	if err := s.checkAccount(); err != nil {
		return err
	}
	return s.Model.Validate()
}

// checkAccount judges who asks, under which id, for how much and how long.
func (s Submission) checkAccount() error {
	if err := modelspec.CheckName("tenant", s.Tenant); err != nil {
		return err
	}
	if err := modelspec.CheckName("id", s.ID); err != nil {
		return err
	}
	if s.Cost < 1 || s.Cost > MaxCost {
		return &modelspec.FieldError{Field: "cost", Message: fmt.Sprintf("cost must be an integer from 1 to %d slots per replica; got %d", MaxCost, s.Cost)}
	}
	if s.Priority < 0 || s.Priority > MaxPriority {
		return &modelspec.FieldError{Field: "priority", Message: fmt.Sprintf("priority must be an integer from 0 to %d; got %d", MaxPriority, s.Priority)}
	}
	if err := modelspec.CheckName("pool", s.Pool); err != nil {
		return err
	}
	if s.TTL < time.Second || s.TTL > MaxTTL || s.TTL%time.Second != 0 {
		return &modelspec.FieldError{Field: "ttlSeconds", Message: fmt.Sprintf("ttlSeconds must be an integer from 1 to %d; got %v", int64(MaxTTL/time.Second), s.TTL.Seconds())}
	}
	return nil
}

// Hash names the meaning of a submission: "v1:" and the hex SHA-256 over the
// canonical JSON of everything a client chose except the id. Key order,
// spelling and left-out defaults of the original body do not reach it.
func (s Submission) Hash() string {
	body, err := json.Marshal(struct {
		Cost     int64           `json:"cost"`
		Priority int             `json:"priority"`
		Pool     string          `json:"pool"`
		TTL      int64           `json:"ttlSeconds"`
		Model    modelspec.Model `json:"model"`
	}{s.Cost, s.Priority, s.Pool, int64(s.TTL / time.Second), s.Model})
	if err != nil {
		// Unreachable: the struct holds only strings, numbers and flags.
		panic(fmt.Sprintf("budget: marshal a submission: %v", err))
	}
	sum := sha256.Sum256(body)
	return hashVersion + hex.EncodeToString(sum[:])
}

// Differs compares a repeated submission with what was first submitted and
// names the first field that differs. Once PATCH has changed the stored
// model, a difference in it can only be named as "model".
func Differs(r Reservation, s Submission) (*ConflictError, bool) {
	if r.SpecHash == s.Hash() {
		return nil, false
	}
	have := map[string]string{
		"cost":       strconv.FormatInt(r.Cost, 10),
		"priority":   strconv.Itoa(r.Priority),
		"pool":       r.Pool,
		"ttlSeconds": strconv.FormatInt(int64(r.ExpiresAt.Sub(r.CreatedAt)/time.Second), 10),
	}
	got := map[string]string{
		"cost":       strconv.FormatInt(s.Cost, 10),
		"priority":   strconv.Itoa(s.Priority),
		"pool":       s.Pool,
		"ttlSeconds": strconv.FormatInt(int64(s.TTL/time.Second), 10),
	}
	for _, field := range []string{"cost", "priority", "pool", "ttlSeconds"} {
		if have[field] != got[field] {
			return &ConflictError{Ref: s.Ref, Field: field, Have: have[field], Got: got[field]}, true
		}
	}
	if r.Generation == 1 {
		if c := modelDiffers(r.Model, s.Model); c != nil {
			c.Ref = s.Ref
			return c, true
		}
	}
	return &ConflictError{Ref: s.Ref, Field: "model", Have: "as it was first submitted", Got: "another one"}, true
}

func modelDiffers(a, b modelspec.Model) *ConflictError {
	have, got := fields("model", a), fields("model", b)
	paths := slices.Collect(maps.Keys(have))
	paths = append(paths, slices.Collect(maps.Keys(got))...)
	slices.Sort(paths)
	for _, path := range paths {
		if have[path] != got[path] {
			return &ConflictError{Field: path, Have: shown(have[path]), Got: shown(got[path])}
		}
	}
	return nil
}

// fields flattens v's JSON into path → value, so that a difference deep in a
// model can be named the way the client wrote it.
func fields(path string, v any) map[string]string {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return map[string]string{path: string(raw)}
	}
	flat := map[string]string{}
	for key, value := range object {
		maps.Copy(flat, fields(path+"."+key, value))
	}
	return flat
}

func shown(v string) string {
	switch {
	case v == "":
		return "nothing"
	case len(v) > 80:
		return v[:80] + "…"
	}
	return v
}
