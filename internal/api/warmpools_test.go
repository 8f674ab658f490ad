package api

import (
	"math"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
)

// TestWarmPools: settings are judged field by field, kept with their defaults
// and audited; the report says what they cost and buy.
func TestWarmPools(t *testing.T) {
	t.Parallel()
	scaling := &fakeScaling{}
	b := setup(t, func(c *Config) { scaling.ledger, c.Scaling = c.Ledger, scaling })
	settings := `{"gpuHoursPerDay":24,"timeZone":"Europe/Berlin","classes":[
		{"class":"llm","hot":1,"schedules":[{"days":["Mon","Fri"],"from":"07:00","to":"11:00","hot":3,"buffers":1}]},{"class":"vision","hot":2}]}`
	got := read[openapi.WarmPool](b.ask(b.admin, "PUT", "/warmpools/default", settings), 200)
	classes := value(got.Settings.Classes, nil)
	if got.Pool != "default" || len(classes) != 2 || *classes[0].GpuMemoryMiB != 4096 || *classes[0].Gpus != 1 || classes[1].Gpus != nil {
		t.Fatalf("the pool is %+v", got)
	}
	if s := value(classes[0].Schedules, nil); len(s) != 1 || s[0].From != "07:00" || *s[0].Hot != 3 || len(*s[0].Days) != 2 {
		t.Errorf("its schedules are %+v", s)
	}
	for body, field := range map[string]string{
		`{"gpuHoursPerDay":-1}`: "gpuHoursPerDay", `{"gpuHoursPerDay":"1"}`: "gpuHoursPerDay", `{"timeZone":"Mars","gpuHoursPerDay":1}`: "timeZone",
		`{"classes":[{"class":"huge"}]}`: "classes[0].class", `{"classes":[{"class":"llm","hot":1.5}]}`: "classes[0].hot", `{"budget":1}`: "budget",
		`{"classes":[{"class":"llm","schedules":[{"from":"7","to":"8"}]}]}`: "classes[0].schedules[0].from",
	} {
		if e := b.ask(b.admin, "PUT", "/warmpools/default", body).fails(400, "invalid_request"); value(e.Field, "") != field {
			t.Errorf("%s: field %q, want %q (%s)", body, value(e.Field, ""), field, e.Message)
		}
	}
	b.ask(b.admin, "PUT", "/warmpools/nowhere", settings).fails(404, "not_found")
	pools, err := b.ledger.Pools(t.Context())
	b.ok(err)
	if w := pools[0].Warm; w == nil || w.GPUHoursPerDay != 24 || w.Classes[0].Schedules[0].Hot != 3 {
		t.Fatalf("the ledger keeps %+v", w)
	}
	day := elastic.WarmDay{Day: "2026-11-30", At: time.Now(), Seconds: 5400, Buffers: map[modelspec.Class]int{modelspec.ClassLLM: 1}}
	day = day.With(elastic.ActivatedCold, modelspec.ClassLLM, 40*time.Second).With(elastic.ActivatedHot, modelspec.ClassLLM, 0)
	scaling.warm = []scaler.WarmReport{{
		Pool: "default", Settings: *pools[0].Warm, Day: day, Buffered: true, Next: &elastic.WarmGain{Class: modelspec.ClassLLM, Activations: 0.5, Seconds: 20, Message: "words"},
		Plan: elastic.WarmPlan{Classes: []elastic.WarmServed{{Class: modelspec.ClassLLM, Hot: elastic.WarmCount{Wanted: 3, Kept: 2}, Buffers: elastic.WarmCount{Wanted: 1, Kept: 1}, Why: "spent"}}},
	}}
	item := read[openapi.WarmPoolList](b.ask(b.viewer, "GET", "/warmpools", ""), 200).Items[0]
	if item.SpentToday != 1.5 || item.Left != 22.5 || item.Activations != (openapi.Activations{Hot: 1, Cold: 1}) || math.Abs(*item.P99ActivationSeconds-44) > 5 {
		t.Errorf("the report is %+v", item)
	}
	served := item.Classes[0]
	if served.Hot.Wanted != 3 || served.Hot.Kept != 2 || *served.Buffers.Ready != 1 || *served.Why != "spent" || item.WhatTheNextHourBuys.Seconds != 20 {
		t.Errorf("it is served with %+v, the next hour buys %+v", served, item.WhatTheNextHourBuys)
	}
	scaling.warm[0].Buffered = false
	item = read[openapi.WarmPoolList](b.ask(b.admin, "GET", "/warmpools", ""), 200).Items[0]
	if served = item.Classes[0]; served.Buffers.Kept != 0 || !strings.Contains(*served.Why, "cluster") {
		t.Errorf("buffers without a cluster: %+v", served)
	}
	scaling.warm = nil
	if got = read[openapi.WarmPool](b.ask(b.admin, "PUT", "/warmpools/default", `{}`), 200); len(*got.Settings.Classes) != 0 {
		t.Errorf("a pool that keeps nothing: %+v", got)
	}
}
