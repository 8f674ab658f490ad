package modelspec_test

import (
	"errors"
	"testing"
	"time"

	"modeldock.io/internal/modelspec"
)

func TestAWarmPoolIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*modelspec.WarmPool)
		field  string
	}{
		"as it is":              {func(*modelspec.WarmPool) {}, ""},
		"nothing at all":        {func(p *modelspec.WarmPool) { *p = modelspec.WarmPool{} }, ""},
		"less than nothing":     {func(p *modelspec.WarmPool) { p.GPUHoursPerDay = -1 }, "gpuHoursPerDay"},
		"too much":              {func(p *modelspec.WarmPool) { p.GPUHoursPerDay = modelspec.MaxGPUHours + 1 }, "gpuHoursPerDay"},
		"no such zone":          {func(p *modelspec.WarmPool) { p.TimeZone = "Mars/Olympus" }, "timeZone"},
		"the machine's zone":    {func(p *modelspec.WarmPool) { p.TimeZone = "Local" }, "timeZone"},
		"a class of its own":    {func(p *modelspec.WarmPool) { p.Classes[0].Class = "huge" }, "classes[0].class"},
		"a class twice":         {func(p *modelspec.WarmPool) { p.Classes[1].Class = modelspec.ClassLLM }, "classes[1].class"},
		"a minimum below zero":  {func(p *modelspec.WarmPool) { p.Classes[1].Hot = -1 }, "classes[1].hot"},
		"a buffer of no size":   {func(p *modelspec.WarmPool) { p.Classes[0].GPUMemory = 0 }, "classes[0].gpuMemoryMiB"},
		"no such day":           {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].Days = []string{"Monday"} }, "classes[0].schedules[0].days"},
		"a day twice":           {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].Days = []string{"Mon", "Mon"} }, "classes[0].schedules[0].days"},
		"no time":               {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].From = "noon" }, "classes[0].schedules[0].from"},
		"a day has 24 hours":    {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].To = "24:00" }, ""},
		"it does not begin so":  {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].From = "24:00" }, "classes[0].schedules[0].from"},
		"a schedule of nothing": {func(p *modelspec.WarmPool) { p.Classes[0].Schedules[0].Hot = -2 }, "classes[0].schedules[0].hot"},
		"too many schedules": {func(p *modelspec.WarmPool) {
			p.Classes[1].Schedules = make([]modelspec.WarmSchedule, modelspec.MaxSchedules+1)
		}, "classes[1].schedules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := modelspec.WarmPool{GPUHoursPerDay: 24, TimeZone: "Europe/Berlin", Classes: []modelspec.WarmClass{
				{Class: modelspec.ClassLLM, Schedules: []modelspec.WarmSchedule{{Days: []string{"Mon"}, From: "07:00", To: "11:00", Hot: 2, Buffers: 1}}},
				{Class: modelspec.ClassVision, Hot: 1},
			}}.Canonical()
			c.change(&p)
			err := p.Validate()
			var wrong *modelspec.FieldError
			if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &wrong) || wrong.Field != c.field) {
				t.Errorf("got %v, want an error of %q", err, c.field)
			}
		})
	}
}

func TestSchedulesRaiseTheMinimum(t *testing.T) {
	t.Parallel()
	c := modelspec.WarmClass{Hot: 1, Schedules: []modelspec.WarmSchedule{
		{Days: []string{"Mon", "Tue", "Wed", "Thu", "Fri"}, From: "07:00", To: "11:00", Hot: 3},
		{Days: []string{"Fri"}, From: "22:00", To: "02:00", Hot: 2, Buffers: 4},
		{From: "10:00", To: "10:30", Hot: 0},
	}}
	berlin := modelspec.WarmPool{TimeZone: "Europe/Berlin"}.Zone()
	for text, want := range map[string][2]int{
		"2026-11-30 06:59": {1, 0}, "2026-11-30 07:00": {3, 0}, "2026-11-30 10:59": {3, 0}, "2026-11-30 11:00": {1, 0},
		"2026-11-29 08:00": {1, 0}, // a Sunday
		"2026-12-04 21:59": {1, 0}, "2026-12-04 22:00": {2, 4}, "2026-12-05 01:59": {2, 4}, "2026-12-05 02:00": {1, 0}, "2026-12-05 23:00": {1, 0},
		"2026-10-25 10:10": {1, 0}, // the clocks went back
	} {
		at, err := time.ParseInLocation("2006-01-02 15:04", text, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if hot, buffers := c.At(at); hot != want[0] || buffers != want[1] {
			t.Errorf("%s: %d hot and %d buffers, want %v", text, hot, buffers, want)
		}
	}
}
