package elastic_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// monday is one, at noon.
var monday = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a moment

func sleeper(name string, class modelspec.Class, used time.Duration) elastic.WarmModel {
	return elastic.WarmModel{Name: name, Class: class, GPUs: 1, LastUsed: monday.Add(-used)}
}

func kept(p elastic.WarmPlan) string {
	return strings.Join(slices.Sorted(maps.Keys(p.Keep)), " ")
}

// Who has callers fills the minimum, then who was used last; others sleep.
func TestTheLatestUsedAreKept(t *testing.T) {
	t.Parallel()
	pool := modelspec.WarmPool{GPUHoursPerDay: 100, Classes: []modelspec.WarmClass{{Class: modelspec.ClassLLM, Hot: 2}}}
	models := []elastic.WarmModel{
		sleeper("old", modelspec.ClassLLM, 3*time.Hour), sleeper("new", modelspec.ClassLLM, time.Hour),
		sleeper("fresh", modelspec.ClassLLM, time.Minute), sleeper("another", modelspec.ClassVision, 0),
	}
	if p := elastic.KeepWarm(pool, 0, models, monday); kept(p) != "fresh new" || p.Classes[0].Hot != (elastic.WarmCount{Wanted: 2, Kept: 2}) || p.Classes[0].Why != "" {
		t.Errorf("kept %q, %+v", kept(p), p.Classes)
	}
	models[0].Busy = true
	if p := elastic.KeepWarm(pool, 0, models, monday); kept(p) != "fresh old" {
		t.Errorf("with callers of the oldest, kept %q", kept(p))
	}
	models[2].NoRoom = true
	if p := elastic.KeepWarm(pool, 0, models, monday); kept(p) != "new old" {
		t.Errorf("without room for the latest, kept %q", kept(p))
	}
	p := elastic.KeepWarm(pool, 0, models[1:2], monday)
	if p.Classes[0].Hot.Kept != 1 || !strings.Contains(p.Classes[0].Why, "1 models of class llm") {
		t.Errorf("fewer models than wanted: %+v", p.Classes[0])
	}
}

// What comes first has its need until midnight set aside; what is not served
// says so, and a budget that is spent serves nobody but those with callers.
func TestClassesAreServedInOrder(t *testing.T) {
	t.Parallel()
	pool := modelspec.WarmPool{GPUHoursPerDay: 24, Classes: []modelspec.WarmClass{
		{Class: modelspec.ClassLLM, Hot: 1, Schedules: []modelspec.WarmSchedule{{From: "18:00", To: "22:00", Hot: 2}}},
		{Class: modelspec.ClassVision, Hot: 1, Buffers: 1, GPUMemory: 1024, GPUs: 1},
	}}
	models := []elastic.WarmModel{sleeper("a", modelspec.ClassLLM, 0), sleeper("b", modelspec.ClassLLM, 1), sleeper("c", modelspec.ClassVision, 0)}
	for _, c := range []struct {
		spent        float64
		kept, says   string
		hot, buffers int // of the second class
	}{
		{0, "a c", "", 1, 0},          // llm needs 12 + 4, vision's replica has the 8 that are left, its buffer nothing
		{8.5, "a", "set aside", 0, 0}, // 15.5 are left of the 16 that llm needs
		{-5, "a c", "", 1, 1},         // more is left than anybody needs
		{24, "", "24 GPU-hours of 2026-11-30 are spent", 0, 0},
		{30, "", "are spent", 0, 0},
	} {
		p := elastic.KeepWarm(pool, c.spent, models, monday)
		second := p.Classes[1]
		if kept(p) != c.kept || second.Hot.Kept != c.hot || second.Buffers.Kept != c.buffers {
			t.Errorf("%g spent: kept %q, %+v", c.spent, kept(p), p.Classes)
		}
		if !strings.Contains(second.Why, c.says) || (second.Why == "") != (c.hot+c.buffers == 2) {
			t.Errorf("%g spent: %q does not say %q", c.spent, second.Why, c.says)
		}
	}
	models[1].Busy = true
	if p := elastic.KeepWarm(pool, 24, models, monday); kept(p) != "" || p.Classes[0].Hot.Kept != 1 {
		t.Errorf("all is spent and b has callers: kept %q, %+v", kept(p), p.Classes[0])
	}
	if p := elastic.KeepWarm(pool, 0, models, monday.Add(7*time.Hour)); p.Classes[0].Hot != (elastic.WarmCount{Wanted: 2, Kept: 2}) {
		t.Errorf("in the evening: %+v", p.Classes[0])
	}
}

// Nothing is kept for a pool that says nothing, at any hour of any zone.
func TestTheDayIsThePools(t *testing.T) {
	t.Parallel()
	pool := modelspec.WarmPool{GPUHoursPerDay: 1, TimeZone: "Asia/Tokyo", Classes: []modelspec.WarmClass{
		{Class: modelspec.ClassLLM, Schedules: []modelspec.WarmSchedule{{Days: []string{"Tue"}, From: "00:00", To: "01:00", Hot: 1}}},
	}}
	models := []elastic.WarmModel{sleeper("a", modelspec.ClassLLM, 0)}
	for hour, want := range map[int]string{14: "", 15: "a", 16: ""} { // 15:00 UTC on Monday is midnight in Tokyo
		if p := elastic.KeepWarm(pool, 0, models, monday.Add(time.Duration(hour-12)*time.Hour)); kept(p) != want {
			t.Errorf("at %d:00 UTC kept %q, want %q", hour, kept(p), want)
		}
	}
	if p := elastic.KeepWarm(modelspec.WarmPool{}, 0, models, monday); kept(p) != "" || len(p.Classes) != 0 {
		t.Errorf("an empty pool: %+v", p)
	}
}

func TestADayIsCounted(t *testing.T) {
	t.Parallel()
	var d elastic.WarmDay
	d = d.Next(5, monday) // nothing is known of before
	d = d.Next(3, monday.Add(time.Minute))
	if d.Seconds != 180 || d.Day != "2026-11-30" {
		t.Errorf("three cards for a minute: %+v", d)
	}
	if d = d.Next(1, monday.Add(time.Hour)); d.Seconds != 180+300 {
		t.Errorf("an hour in which nobody looked is charged with five minutes: %+v", d)
	}
	if d = d.Next(1, monday); d.Seconds != 480 || !d.At.Equal(monday.Add(time.Hour)) {
		t.Errorf("a clock that goes back: %+v", d)
	}
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	d = d.With(elastic.ActivatedCold, modelspec.ClassLLM, time.Minute).Next(2, midnight.Add(-time.Minute))
	d = d.Next(2, midnight.Add(time.Minute))
	if d.Seconds != 120 || d.Day != "2026-12-01" || len(d.Counts)+len(d.Waits)+len(d.Woken) != 0 {
		t.Errorf("after midnight: %+v", d)
	}
}

func TestWaitsOfADay(t *testing.T) {
	t.Parallel()
	var none, d elastic.WarmDay
	if _, known := none.P99(); known {
		t.Error("a day without activations has a wait")
	}
	for range 98 {
		d = d.With(elastic.ActivatedHot, modelspec.ClassLLM, 0)
	}
	d = d.With(elastic.ActivatedWarm, modelspec.ClassLLM, 10*time.Second)
	if p, _ := d.P99(); p < 10*time.Second || p > 12*time.Second {
		t.Errorf("1 of 99 waited for 10 s: p99 is %s", p)
	}
	d = d.With(elastic.ActivatedCold, modelspec.ClassVision, 300*time.Second)
	if p, _ := d.P99(); p < 10*time.Second || p > 12*time.Second {
		t.Errorf("2 of 100 waited: p99 is %s", p)
	}
	if d.Counts[elastic.ActivatedHot] != 98 || d.Counts[elastic.ActivatedWarm] != 1 || d.Counts[elastic.ActivatedCold] != 1 || len(none.Counts) != 0 {
		t.Errorf("%+v", d)
	}
}

// One more hour goes where it spares the most waiting.
func TestWhatTheNextHourBuys(t *testing.T) {
	t.Parallel()
	pool := modelspec.WarmPool{GPUHoursPerDay: 1, Classes: []modelspec.WarmClass{{Class: modelspec.ClassLLM, Hot: 1}}}
	models := []elastic.WarmModel{sleeper("kept", modelspec.ClassLLM, 0), sleeper("a", modelspec.ClassLLM, 1), sleeper("b", modelspec.ClassVision, 1), sleeper("c", modelspec.ClassVision, 2)}
	models[1].GPUs = 4
	plan := elastic.KeepWarm(pool, 0, models, monday)
	var d elastic.WarmDay
	if g := elastic.NextHour(pool, d, plan, models, monday); g != nil {
		t.Errorf("nobody was woken, and an hour buys %+v", g)
	}
	for range 12 {
		d = d.With(elastic.ActivatedCold, modelspec.ClassLLM, 40*time.Second)
	}
	g := elastic.NextHour(pool, d, plan, models, monday)
	if g == nil || g.Class != modelspec.ClassLLM || math.Abs(g.Activations-0.25) > 1e-9 || math.Abs(g.Seconds-10) > 1e-9 || !strings.Contains(g.Message, "40.0 s") {
		t.Errorf("12 of 40 s in 12 hours, of a model with four cards: %+v", g)
	}
	for range 36 {
		d = d.With(elastic.ActivatedWarm, modelspec.ClassVision, 8*time.Second)
	}
	if g = elastic.NextHour(pool, d, plan, models, monday); g == nil || g.Class != modelspec.ClassVision || math.Abs(g.Activations-1.5) > 1e-9 {
		t.Errorf("36 of 8 s of two models with a card each: %+v", g)
	}
}

// A model in its pool's minimum is woken, and does not go to sleep.
func TestAWarmModelStays(t *testing.T) {
	t.Parallel()
	spec := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, 0)
	spec.Min, spec.Max, spec.Idle, spec.Warm = 0, 3, time.Minute, "1 of 1 of class llm"
	long := elastic.History{Since: monday.Add(-time.Hour)}
	d := elastic.Decide(spec, elastic.Signals{}, long, elastic.Budget{}, monday)
	if d.Replicas != 1 || d.Reason != elastic.ReasonPrewarmed || !strings.Contains(d.Message, spec.Warm) {
		t.Errorf("asleep: %+v", d)
	}
	idle := elastic.Signals{Replicas: 2, ReadySince: monday.Add(-time.Hour)}
	if d = elastic.Decide(spec, idle, long, elastic.Budget{}, monday); d.Replicas != 1 || d.Reason != elastic.ReasonKept {
		t.Errorf("idle: %+v", d)
	}
	spec.Warm = ""
	if d = elastic.Decide(spec, idle, long, elastic.Budget{}, monday); d.Replicas != 0 || d.Reason != elastic.ReasonIdle {
		t.Errorf("idle, and not kept: %+v", d)
	}
}
