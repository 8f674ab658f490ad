package scenario_test

import (
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

func TestOneMachine(t *testing.T) {
	t.Parallel()
	for name, story := range scenario.Stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, onemachine.New(t))
		})
	}
}

// One card, and a residence that a test can wait for.
func TestTwoModelsShareOneCard(t *testing.T) {
	t.Parallel()
	scenario.TwoShareOneCard(t, onemachine.New(t, "--cards", "1x10000", "--min-residence", "2s", "--scale-every", "1s"))
}

// The same card for two whose engines stay loaded while they are not called.
func TestTwoModelsSleepInTurn(t *testing.T) {
	t.Parallel()
	scenario.SleepersShareOneCard(t, onemachine.New(t, "--cards", "1x10000", "--min-residence", "1s", "--scale-every", "500ms", "--asleep-memory", "20000"))
}

// The JSON ledger is the same rules: the stories that move slots run on it too.
func TestOneMachineWithJSONLedger(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SubmittedTwice", "CapHolds", "ReleasedOnce", "WholeStory", "GrowsAndShrinks", "ScalesWithTheLoad"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/ledger.json"
			scenario.Stories()[name](t, onemachine.New(t, "--store", "json:"+file))
		})
	}
}
