package budget_test

import (
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

func submission() budget.Submission {
	return budget.Submission{
		Ref: budget.Ref{Tenant: "team-a", ID: "demo-a"}, Cost: 1, Priority: 50,
		Pool: budget.DefaultPool, TTL: budget.DefaultTTL, Model: modelspec.Default("demo-a"),
	}
}

// TestHashIsStable pins the canonical form: stored hashes must still match
// after an upgrade, or every repeated submit becomes a conflict. If this
// fails, either the change is a mistake or it needs a new hash version.
func TestHashIsStable(t *testing.T) {
	t.Parallel()
	const want = "v1:8757a4d951d9fddb98ffadc8ac8a5a6a1fe8bab48f27748a91297cf3647b02b8"
	if got := submission().Hash(); got != want {
		t.Fatalf("hash is %s, stored ones are %s", got, want)
	}
}

func TestHashIsOfTheMeaning(t *testing.T) {
	t.Parallel()
	base := submission()
	same := base
	same.Model.Args, same.Model.Env = []string{}, map[string]string{}
	if same.Hash() != base.Hash() {
		t.Fatal("an empty list and a missing one differ")
	}
	other := base
	other.ID, other.Tenant = "demo-b", "team-b"
	if other.Hash() != base.Hash() {
		t.Fatal("the id is part of the hash")
	}
	seen := map[string]string{base.Hash(): "nothing"}
	for what, change := range map[string]func(*budget.Submission){
		"cost":     func(s *budget.Submission) { s.Cost = 2 },
		"priority": func(s *budget.Submission) { s.Priority = 51 },
		"pool":     func(s *budget.Submission) { s.Pool = "other" },
		"ttl":      func(s *budget.Submission) { s.TTL += time.Second },
		"weight":   func(s *budget.Submission) { s.Model.Traffic.Weight = 0 },
		"args":     func(s *budget.Submission) { s.Model.Args = []string{"a", "b"} },
		"args 2":   func(s *budget.Submission) { s.Model.Args = []string{"a b"} },
	} {
		s := base
		change(&s)
		if before, twice := seen[s.Hash()]; twice {
			t.Fatalf("changing %s gives the same hash as changing %s", what, before)
		}
		seen[s.Hash()] = what
	}
}

// TestDiffersComparesWithWhatWasSubmitted: a model that PATCH changed since
// does not make the original payload a conflict.
func TestDiffersComparesWithWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	s := submission()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stored := budget.Reservation{
		Ref: s.Ref, Generation: 2, Cost: s.Cost, Priority: s.Priority, Pool: s.Pool, Model: s.Model,
		SpecHash: s.Hash(), CreatedAt: now, ExpiresAt: now.Add(s.TTL),
	}
	stored.Model.Traffic.Weight = 7
	if conflict, differs := budget.Differs(stored, s); differs {
		t.Fatalf("the original payload conflicts: %v", conflict)
	}
	patched := s
	patched.Model.Traffic.Weight = 7
	conflict, differs := budget.Differs(stored, patched)
	if !differs || conflict.Field != "model" {
		t.Fatalf("a payload that equals only the patched model: %v", conflict)
	}
	patched.TTL = time.Hour
	if conflict, _ = budget.Differs(stored, patched); conflict.Field != "ttlSeconds" || conflict.Have != "86400" || conflict.Got != "3600" {
		t.Fatalf("conflict is %+v", conflict)
	}
}
