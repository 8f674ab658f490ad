package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
)

// Two requests a month apart are as much work as a month full of them.
func TestASimulationOfTooManyStepsIsRefused(t *testing.T) {
	t.Parallel()
	err := checkSteps(31*24*time.Hour, []simulate.Policy{{Period: referencePeriod}, {Period: 2 * time.Second}})
	if err == nil || !strings.Contains(err.Error(), "2 policies over a trace of 744h0m0s would be asked 1517762 times in all; at most 1000000 are") {
		t.Errorf("a month of two policies: %v", err)
	}
	if err := checkSteps(7*24*time.Hour, []simulate.Policy{{Period: referencePeriod}, {Period: 2 * time.Second}}); err != nil {
		t.Errorf("a week of two policies: %v", err)
	}
}

func TestASimulationEndsWhenItsCallerLeaves(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	in := openapi.Simulate{Trace: "timestamp_ms,input_length,output_length\n0,1,1\n1,1,1\n"}
	if _, err := replay(ctx, in); err == nil || !strings.Contains(err.Error(), "left") {
		t.Errorf("a caller that left: %v", err)
	}
	asked := 0
	p := simulate.Policy{Name: "p", Spec: elastic.Reference(), Period: time.Second, Stopped: func() bool { asked++; return asked > 100 }}
	_, err := simulate.Run([]simulate.Request{{}, {At: 20 * 24 * time.Hour}}, simulate.DefaultModel("llm"), p)
	if !errors.Is(err, simulate.ErrStopped) || asked != 101 {
		t.Errorf("after %d questions: %v", asked, err)
	}
}

func TestACallerHasOneSimulationAtATime(t *testing.T) {
	t.Parallel()
	r := &Server{replaying: newPlaces(1, maxReplays)}
	endA, err := r.beginReplay("tenant a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.beginReplay("tenant a"); err == nil {
		t.Error("a second one of the same caller began")
	}
	endB, err := r.beginReplay("tenant b")
	if err != nil {
		t.Errorf("another tenant waits for the first: %v", err)
	}
	if _, err := r.beginReplay("tenant c"); err == nil {
		t.Errorf("more than %d run at once", maxReplays)
	}
	endA()
	endB()
	if _, err := r.beginReplay("tenant a"); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
