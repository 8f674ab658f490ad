package scenario

import "testing"

// Stories are all user stories by name. Each runs on a platform of its own.
func Stories() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"SubmittedTwice":               SubmittedTwice,
		"NamesStayApart":               NamesStayApart,
		"BadInputChangesNothing":       BadInputChangesNothing,
		"RefusalsHaveOneShape":         RefusalsHaveOneShape,
		"CapHolds":                     CapHolds,
		"FiftyAtOnce":                  FiftyAtOnce,
		"ImpossibleHoldsNobody":        ImpossibleHoldsNobody,
		"WakesForEveryReason":          WakesForEveryReason,
		"StreamedOwnedCancelled":       StreamedOwnedCancelled,
		"FirstCallWaits":               FirstCallWaits,
		"NoCardFits":                   NoCardFits,
		"ReleasedOnce":                 ReleasedOnce,
		"CreditWaitsForTheLastProcess": CreditWaitsForTheLastProcess,
		"WholeStory":                   WholeStory,
		"GrowsAndShrinks":              GrowsAndShrinks,
		"ShrinkSurvivesACrash":         ShrinkSurvivesACrash,
		"LimitsHold":                   LimitsHold,
		"AnswersAreCached":             AnswersAreCached,
		"ManyWaitForAColdModel":        ManyWaitForAColdModel,
		"ColdStartIsBounded":           ColdStartIsBounded,
		"EngineDiesUnderLoad":          EngineDiesUnderLoad,
		"ScalesWithTheLoad":            ScalesWithTheLoad,
		"SleepsAndWakes":               SleepsAndWakes,
		"ClassesAndWorkloadsDiffer":    ClassesAndWorkloadsDiffer,
		"WarmPoolKeepsTheLatest":       WarmPoolKeepsTheLatest,
		"MissingMetricsShrinkNothing":  MissingMetricsShrinkNothing,
	}
}
