package main

import (
	"testing"
)

// The short form; the long one is the command.
func TestMarathon(t *testing.T) {
	t.Parallel()
	for store, operations := range map[string]int64{"sqlite": 20_000, "json": 2_000} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			short(t, store, operations)
		})
	}
}

func short(t *testing.T, name string, operations int64) {
	t.Helper()
	s, err := openStore(t.Context(), name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.perRound = operations / 2 // one round with caps that stand still, one with others
	sum, err := s.marathon(t.Context(), operations, 7)
	if err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	t.Log(sum)
	for _, f := range sum.findings {
		t.Error(f)
	}
	if sum.operations < operations || sum.admitted == 0 || sum.credited == 0 || sum.grown == 0 || sum.samples == 0 {
		t.Error("too little happened")
	}
}
