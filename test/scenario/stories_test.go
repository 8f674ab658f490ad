package scenario_test

import (
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// stories run on every harness, each on a platform of its own.
func stories() map[string]func(*testing.T, scenario.Harness) {
	return map[string]func(*testing.T, scenario.Harness){
		"SubmittedTwice":               scenario.SubmittedTwice,
		"NamesStayApart":               scenario.NamesStayApart,
		"BadInputChangesNothing":       scenario.BadInputChangesNothing,
		"LaterWorkAnswers501":          scenario.LaterWorkAnswers501,
		"CapHolds":                     scenario.CapHolds,
		"FiftyAtOnce":                  scenario.FiftyAtOnce,
		"ImpossibleHoldsNobody":        scenario.ImpossibleHoldsNobody,
		"WakesForEveryReason":          scenario.WakesForEveryReason,
		"StreamedOwnedCancelled":       scenario.StreamedOwnedCancelled,
		"FirstCallWaits":               scenario.FirstCallWaits,
		"NoCardFits":                   scenario.NoCardFits,
		"ReleasedOnce":                 scenario.ReleasedOnce,
		"CreditWaitsForTheLastProcess": scenario.CreditWaitsForTheLastProcess,
		"WholeStory":                   scenario.WholeStory,
		"GrowsAndShrinks":              scenario.GrowsAndShrinks,
		"ShrinkSurvivesACrash":         scenario.ShrinkSurvivesACrash,
		"LimitsHold":                   scenario.LimitsHold,
		"AnswersAreCached":             scenario.AnswersAreCached,
		"ManyWaitForAColdModel":        scenario.ManyWaitForAColdModel,
		"EngineDiesUnderLoad":          scenario.EngineDiesUnderLoad,
	}
}

func TestOneMachine(t *testing.T) {
	t.Parallel()
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, onemachine.New(t))
		})
	}
}

// The JSON ledger is the same rules: the stories that move slots run on it too.
func TestOneMachineWithJSONLedger(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SubmittedTwice", "CapHolds", "ReleasedOnce", "WholeStory", "GrowsAndShrinks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/ledger.json"
			stories()[name](t, onemachine.New(t, "--store", "json:"+file))
		})
	}
}
