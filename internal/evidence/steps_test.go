package evidence_test

import (
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/evidence"
)

func TestStepsCarryTheirProof(t *testing.T) {
	t.Parallel()
	doc := evidence.Build(released(servedFacts()))
	for step, facts := range map[string]map[string]any{
		"submitted":  {"submits": int64(1), "model": "demo@v1", "engine": "simulated"},
		"reserved":   {"debits": 1, "slots": int64(1)},
		"delivered":  {"uid": "u1", "attempts": int64(1)},
		"firstChunk": {"requestId": "i1", "endpointUid": "p1", "latestRequestId": "i2", "firstChunkMilliseconds": 1000.0},
		"deleting":   {"attempts": int64(0)},
		"credited":   {"credits": 1},
	} {
		s := find(t, doc, step)
		for k, v := range facts {
			if s.Facts[k] != v {
				t.Errorf("step %s: %s is %v (%T), want %v", step, k, s.Facts[k], s.Facts[k], v)
			}
		}
	}
	for step, when := range map[string]time.Time{"submitted": noon, "reserved": at(1), "delivered": at(2), "started": at(6), "firstChunk": at(9), "deleting": at(20), "gone": at(21), "credited": at(22)} {
		if got := find(t, doc, step).At; !got.Equal(when) {
			t.Errorf("step %s at %v, want %v", step, got, when)
		}
	}
	live := evidence.Build(servedFacts())
	if s := find(t, live, "placed"); s.Facts["freeMiBAtDecision"] != int64(24576) || s.Facts["node"] != "n1" {
		t.Errorf("placed: %v", s.Facts)
	}
	if s := find(t, live, "started"); s.Facts["pid"] != 42 || s.Facts["engineReports"] != "demo" {
		t.Errorf("started: %v", s.Facts)
	}
}

// A step that is pending has no time of its own: nothing happened yet.
func TestPendingStepsHaveNoTime(t *testing.T) {
	t.Parallel()
	f := loadingFacts()
	f.Status.Wanted = 2
	f.Status.Replicas = append(f.Status.Replicas, delivery.Replica{Name: "r-1", Phase: delivery.PhasePending})
	doc := evidence.Build(f)
	for _, step := range []string{"placed", "device", "started", "routable", "firstChunk"} {
		if s := find(t, doc, step); s.Status != evidence.Pending || !s.At.IsZero() {
			t.Errorf("step %s is %s at %v, want pending without a time", step, s.Status, s.At)
		}
	}
}

// What happened before a crash stays proven by the replica that crashed.
func TestCrashBeforeReadinessKeepsWhatHappened(t *testing.T) {
	t.Parallel()
	f := loadFailed()
	f.Last = f.Status.Replicas
	f.Status.Replicas = []delivery.Replica{{Name: "r-0", Phase: delivery.PhaseBackoff, Reason: delivery.ModelLoadFailed}}
	doc := evidence.Build(f)
	if s := find(t, doc, "placed"); s.Status != evidence.OK || s.Facts["card"] != "card-0" || s.Facts["replicaUid"] != "p1" || !s.At.Equal(at(3)) {
		t.Errorf("placed: %+v", s)
	}
	if s := find(t, doc, "device"); s.Status != evidence.OK || s.Facts["simulated"] != true || !s.At.Equal(at(4)) {
		t.Errorf("device: %+v", s)
	}
	if s := find(t, doc, "started"); s.Status != evidence.Broken || s.Facts["pid"] != 42 || s.Facts["replicaUid"] != "p1" {
		t.Errorf("started: %+v", s)
	}
}

// The evidence of a released request keeps its facts.
func TestReleasedEvidenceKeepsItsFacts(t *testing.T) {
	t.Parallel()
	for name, facts := range map[string]evidence.Facts{"served": servedFacts(), "in loading": loadingFacts()} {
		last := facts.Status.Replicas
		f := released(facts)
		f.Last = last
		doc := evidence.Build(f)
		if s := find(t, doc, "children"); s.Status != evidence.OK || s.Facts["replicas"] != 1 {
			t.Errorf("%s: children: %+v", name, s)
		}
		if s := find(t, doc, "placed"); s.Status != evidence.OK || s.Facts["mib"] != int64(4096) || s.Facts["node"] != "n1" {
			t.Errorf("%s: placed: %+v", name, s)
		}
		if s := find(t, doc, "device"); s.Status != evidence.OK || s.Facts["card"] != "card-0" {
			t.Errorf("%s: device: %+v", name, s)
		}
		s := find(t, doc, "started")
		if name == "served" && (s.Status != evidence.OK || s.Facts["pid"] != 42 || s.Facts["replicaUid"] != "p1" || !s.At.Equal(at(6))) {
			t.Errorf("%s: started: %+v", name, s)
		}
		if name != "served" && (s.Status != evidence.Broken || s.Reason != "ReleasedBeforeReady") {
			t.Errorf("%s: started: %+v", name, s)
		}
	}
}

// One that was released before anybody noticed that it was ready did start:
// its caller has an answer.
func TestAFirstChunkProvesTheStart(t *testing.T) {
	t.Parallel()
	f := released(servedFacts())
	f.Binding.EverReady, f.Binding.FirstReadyAt = false, time.Time{}
	doc := evidence.Build(f)
	if s := find(t, doc, "started"); s.Status != evidence.OK || s.Source != "ledger:first_chunk" || !s.At.Equal(at(8)) {
		t.Errorf("started: %+v", s)
	}
	if doc.Answers.ModelStarted == nil || !*doc.Answers.ModelStarted || doc.Reason != "" {
		t.Errorf("answers %+v, reason %q", doc.Answers, doc.Reason)
	}
}

// A model that sleeps keeps its proofs: nothing is broken, and the next call
// wakes it.
func TestSleepUndoesNoProof(t *testing.T) {
	t.Parallel()
	f := servedFacts()
	f.Last, f.Endpoints = f.Status.Replicas, nil
	f.Status.Wanted, f.Status.Ready, f.Status.Replicas = 0, 0, nil
	f.Status.Reason, f.Status.Message = delivery.ScaledToZero, "it sleeps"
	doc := evidence.Build(f)
	for _, name := range []string{"children", "placed", "device", "started"} {
		if s := find(t, doc, name); s.Status != evidence.OK {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := find(t, doc, "routable"); s.Status != evidence.Pending || s.Reason != "ScaledToZero" {
		t.Errorf("routable: %+v", s)
	}
	if a := doc.Answers; doc.BrokenAt != "" || !*a.ModelStarted || !*a.FirstChunkDelivered || doc.NextAction != "CallTheModel" {
		t.Errorf("asleep: %+v", doc)
	}
}

func TestForcedCreditSaysSo(t *testing.T) {
	t.Parallel()
	for _, gone := range []time.Time{{}, at(21), at(22), at(30)} {
		f := with(released(servedFacts()), func(f *evidence.Facts) { f.Binding.GoneAt = gone })
		forced, _ := find(t, evidence.Build(f), "credited").Facts["forced"].(bool)
		if want := gone.IsZero() || gone.After(at(22)); forced != want {
			t.Errorf("gone at %v, credited at %v: forced is %t, want %t", gone, at(22), forced, want)
		}
	}
}

func TestOneSlotIsSingular(t *testing.T) {
	t.Parallel()
	for need, want := range map[int64]string{1: "1 free slot", 2: "2 free slots"} {
		f := standing(budget.QuotaBlocked)
		f.Standing.Need = need
		if s := find(t, evidence.Build(f), "reserved"); s.Expected != want {
			t.Errorf("expected %q, want %q", s.Expected, want)
		}
	}
}
