package jsonledger

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/traffic"
)

// version of the file's format. Version 1 did not keep the funded replicas
// apart from the slots.
const version = 2

// state is the whole ledger. Slices keep the order of arrival.
type state struct {
	Version      int
	Incarnation  string
	Next         counters
	Tenants      []budget.Tenant
	Pools        []budget.Pool
	Reservations []budget.Reservation
	Journal      []budget.Entry
	Outbox       []budget.Intent
	Bindings     []budget.Binding
	Keys         []budget.APIKey
	Grants       []budget.Grant
	EndedGrants  []budget.EndedGrant
	Sessions     []budget.Session
	Audit        []budget.AuditEntry
	Inferences   []traffic.Inference
	Chunks       []evidence.Kept

	changes []budget.Change // of the running update, not stored
}

// counters hold the last number given out.
type counters struct{ Reservation, Journal, Outbox, Audit int64 }

func newState() *state {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &state{Version: version, Incarnation: hex.EncodeToString(id)}
}

func (s *state) encode() ([]byte, error) {
	image, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the ledger: %w", err)
	}
	return image, nil
}

func decode(image []byte) (*state, error) {
	s := &state{}
	if err := json.Unmarshal(image, s); err != nil {
		return nil, fmt.Errorf("decode the ledger: %w", err)
	}
	if s.Version == 1 {
		s.fund()
	}
	if s.Version != version {
		return nil, fmt.Errorf("its format is version %d, this program knows %d: run the program that wrote it", s.Version, version)
	}
	return s, nil
}

// fund brings version 1 up to 2: what was held paid for what ran.
func (s *state) fund() {
	for i := range s.Reservations {
		if r := &s.Reservations[i]; r.State == budget.Reserved {
			r.Funded = int(r.Held / r.Cost)
		}
	}
	s.Version = 2
}

func (s *state) changed(topic string, ref budget.Ref, revision int64) {
	s.changes = append(s.changes, budget.Change{Topic: topic, Ref: ref, Revision: revision})
}

// Finders return a pointer into the state, or nil.

func (s *state) tenant(name string) *budget.Tenant {
	for i := range s.Tenants {
		if s.Tenants[i].Name == name {
			return &s.Tenants[i]
		}
	}
	return nil
}

func (s *state) pool(name string) *budget.Pool {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

func (s *state) reservation(ref budget.Ref) *budget.Reservation {
	for i := range s.Reservations {
		if s.Reservations[i].Ref == ref {
			return &s.Reservations[i]
		}
	}
	return nil
}

func (s *state) binding(ref budget.Ref) *budget.Binding {
	for i := range s.Bindings {
		if s.Bindings[i].Ref == ref {
			return &s.Bindings[i]
		}
	}
	return nil
}
