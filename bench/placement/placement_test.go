package main

import (
	"bytes"
	"testing"
)

// The recordings are what their recipes say.
func TestRecordingsBelongToTheirRecipes(t *testing.T) {
	t.Parallel()
	for name, r := range recipes() {
		recorded, err := recordings.ReadFile("mixes/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(recorded, r.record(name)) {
			t.Errorf("mixes/%s.txt is not what its recipe makes; run go run ./bench/placement --record", name)
		}
	}
}

// As recorded, nobody who looks at cards fails a start or overfills one (the
// cluster refuses that), and nobody is stopped by the end of the recording.
func TestReplays(t *testing.T) {
	t.Parallel()
	mixes, err := readAll()
	if err != nil || len(mixes) != len(recipes()) {
		t.Fatalf("%d mixes (%v)", len(mixes), err)
	}
	naive := 0
	for _, m := range mixes {
		for column, policy := range policies() {
			p, err := policy(m.nodes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(m, p)
			if err != nil {
				t.Fatalf("%s, policy %d: %v", m.name, column, err)
			}
			if got.placed == 0 || got.ended || got.peak > got.has {
				t.Errorf("%s, policy %d: %+v", m.name, column, got)
			}
			if column == 1 {
				naive += got.failed
			} else if got.failed > 0 {
				t.Errorf("%s, policy %d: %d starts failed", m.name, column, got.failed)
			}
		}
	}
	if naive == 0 {
		t.Error("no start of the naive policy failed: the mixes do not show what it gets wrong")
	}
}
