package modelspec

import (
	"fmt"
	"slices"
	"time"
)

// WarmPool says what a pool keeps ready for models that nobody calls, and how
// much card time that may take in a day. The zero value keeps nothing.
type WarmPool struct {
	GPUHoursPerDay float64     `json:"gpuHoursPerDay"`
	TimeZone       string      `json:"timeZone,omitempty"` // of days and schedules, as IANA names it; empty: UTC
	Classes        []WarmClass `json:"classes,omitempty"`  // the one that is served first before the others
}

// WarmClass is what is kept ready for one class. Hot is how many models that
// may sleep keep a replica; Buffers is for how many replicas of GPUs cards with
// GPUMemory each a cluster keeps room.
type WarmClass struct {
	Class     Class          `json:"class"`
	Hot       int            `json:"hot,omitempty"`
	Buffers   int            `json:"buffers,omitempty"`
	GPUMemory int64          `json:"gpuMemoryMiB,omitempty"`
	GPUs      int            `json:"gpus,omitempty"`
	Schedules []WarmSchedule `json:"schedules,omitempty"`
}

// WarmSchedule raises the minimum in hours of some days. One whose To is not
// after From ends on the next day.
type WarmSchedule struct {
	Days    []string `json:"days,omitempty"` // Mon … Sun; none: every day
	From    string   `json:"from"`           // 15:04
	To      string   `json:"to"`             // 15:04, or 24:00
	Hot     int      `json:"hot,omitempty"`
	Buffers int      `json:"buffers,omitempty"`
}

// Bounds of a warm pool.
const (
	MaxGPUHours  = 1_000_000
	MaxWarm      = 1000
	MaxSchedules = 8
)

// Weekdays are the days of schedules, Sunday first as time.Weekday counts them.
func Weekdays() []string { return []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"} }

// Empty reports whether nothing is kept and nothing may be spent.
func (p WarmPool) Empty() bool { return p.GPUHoursPerDay == 0 && len(p.Classes) == 0 }

// Zone is the time zone of days and schedules.
func (p WarmPool) Zone() *time.Location {
	if zone, err := time.LoadLocation(p.TimeZone); err == nil {
		return zone
	}
	return time.UTC // Validate lets in no other; a machine may have lost its list
}

// Validate returns the first FieldError.
func (p WarmPool) Validate() error {
	if p.GPUHoursPerDay < 0 || p.GPUHoursPerDay > MaxGPUHours {
		return &FieldError{"gpuHoursPerDay", fmt.Sprintf("gpuHoursPerDay must be from 0 to %d; got %g", MaxGPUHours, p.GPUHoursPerDay)}
	}
	if _, err := time.LoadLocation(p.TimeZone); err != nil || len(p.TimeZone) > MaxName || p.TimeZone == "Local" {
		return &FieldError{"timeZone", fmt.Sprintf("timeZone must be a name of the IANA list, like Europe/Berlin, or be left out for UTC; got %q", clip(p.TimeZone))}
	}
	for i, c := range p.Classes {
		if err := c.validate(fmt.Sprintf("classes[%d].", i)); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Classes[:i], func(other WarmClass) bool { return other.Class == c.Class }) {
			return &FieldError{fmt.Sprintf("classes[%d].class", i), fmt.Sprintf("class %s is there twice; put its minimum and its schedules together", c.Class)}
		}
	}
	return nil
}

func (c WarmClass) validate(at string) error {
	if !slices.Contains([]Class{ClassLLM, ClassVision, ClassRecommender}, c.Class) {
		return oneOf(at+"class", string(c.Class), "llm, vision, recommender")
	}
	buffers := c.Buffers
	for _, s := range c.Schedules {
		buffers = max(buffers, s.Buffers)
	}
	least := int64(0)
	if buffers > 0 {
		least = 1
	}
	for _, f := range []struct {
		field              string
		value, least, most int64
	}{
		{"hot", int64(c.Hot), 0, MaxWarm}, {"buffers", int64(c.Buffers), 0, MaxWarm},
		{"gpuMemoryMiB", c.GPUMemory, least, MaxGPUMemory}, {"gpus", int64(c.GPUs), least, MaxGPUs},
		{"schedules", int64(len(c.Schedules)), 0, MaxSchedules},
	} {
		if f.value < f.least || f.value > f.most {
			return &FieldError{at + f.field, fmt.Sprintf("%s must be from %d to %d; got %d", at+f.field, f.least, f.most, f.value)}
		}
	}
	for i, s := range c.Schedules {
		if err := s.validate(fmt.Sprintf("%sschedules[%d].", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s WarmSchedule) validate(at string) error {
	for i, d := range s.Days {
		if !slices.Contains(Weekdays(), d) || slices.Contains(s.Days[:i], d) {
			return oneOf(at+"days", d, "Mon, Tue, Wed, Thu, Fri, Sat, Sun, each once")
		}
	}
	for _, f := range []struct{ field, text string }{{"from", s.From}, {"to", s.To}} {
		if _, err := time.Parse("15:04", f.text); err != nil && (f.field != "to" || f.text != "24:00") {
			return &FieldError{at + f.field, fmt.Sprintf("%s must be a time of the day like 07:30; got %q", at+f.field, clip(f.text))}
		}
	}
	for _, f := range []struct {
		field string
		n     int
	}{{"hot", s.Hot}, {"buffers", s.Buffers}} {
		if f.n < 0 || f.n > MaxWarm {
			return &FieldError{at + f.field, fmt.Sprintf("%s must be from 0 to %d; got %d", at+f.field, MaxWarm, f.n)}
		}
	}
	return nil
}

// Canonical fills in the size of a buffer, so that leaving a default out and
// writing it are the same.
func (p WarmPool) Canonical() WarmPool {
	p.Classes = slices.Clone(p.Classes)
	for i := range p.Classes {
		c := &p.Classes[i]
		wants := c.Buffers > 0 || slices.ContainsFunc(c.Schedules, func(s WarmSchedule) bool { return s.Buffers > 0 })
		if wants && c.GPUMemory == 0 {
			c.GPUMemory = DefaultGPUMemory
		}
		if wants && c.GPUs == 0 {
			c.GPUs = 1
		}
	}
	return p
}

// At is the minimum of a class at a moment.
func (c WarmClass) At(now time.Time) (hot, buffers int) {
	hot, buffers = c.Hot, c.Buffers
	for _, s := range c.Schedules {
		if s.holds(now) {
			hot, buffers = max(hot, s.Hot), max(buffers, s.Buffers)
		}
	}
	return hot, buffers
}

func (s WarmSchedule) holds(now time.Time) bool {
	from, to := minutes(s.From), minutes(s.To)
	at := now.Hour()*60 + now.Minute()
	if from < to {
		return s.on(now.Weekday()) && at >= from && at < to
	}
	return s.on(now.Weekday()) && at >= from || s.on((now.Weekday()+6)%7) && at < to
}

func (s WarmSchedule) on(day time.Weekday) bool {
	return len(s.Days) == 0 || slices.Contains(s.Days, Weekdays()[day])
}

// Edges are the moments of a day, in minutes, at which minima may change.
func (c WarmClass) Edges() []int {
	var out []int
	for _, s := range c.Schedules {
		out = append(out, minutes(s.From), minutes(s.To))
	}
	return out
}

func minutes(text string) int {
	if text == "24:00" {
		return 24 * 60
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0 // Validate lets in no such text
	}
	return t.Hour()*60 + t.Minute()
}
