package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/modelspec"
)

// WarmModel is a model of a pool that may sleep.
type WarmModel struct {
	Name     string
	Class    modelspec.Class
	GPUs     int // cards per replica
	Priority int
	Busy     bool // it runs for its callers, or has not been idle for long enough to sleep
	Asked    int  // replicas that are asked for now
	LastUsed time.Time
	NoRoom   bool // no card has room for it
}

// WarmPlan is what a pool keeps ready at a moment.
type WarmPlan struct {
	Keep    map[string]string // models that the pool pays a replica for while nobody calls them, and why
	Classes []WarmServed      // in the pool's order
}

// WarmServed is what became of one class's minimum.
type WarmServed struct {
	Class        modelspec.Class
	Hot, Buffers WarmCount
	GPUMemory    int64 // of a buffer, per card
	GPUs         int
	Why          string // not all of it is kept; empty: it is
}

// WarmCount compares what a class should have with what it gets.
type WarmCount struct{ Wanted, Kept int }

// KeepWarm decides what a pool keeps ready after spent GPU-hours of the day
// that now, in the pool's time zone, is in. Classes are served in order, and so
// are the units of a class: what one of them will need until midnight is set
// aside before the next one gets any. Models with callers fill a class's
// minimum first, and cost nothing; then who was used last.
func KeepWarm(pool modelspec.WarmPool, spent float64, models []WarmModel, now time.Time) WarmPlan {
	now = now.In(pool.Zone())
	w := keeper{pool: pool, now: now, left: pool.GPUHoursPerDay - spent, plan: WarmPlan{Keep: map[string]string{}}}
	w.broke = w.left <= 0
	for _, c := range pool.Classes {
		w.class(c, ranked(models, c.Class))
	}
	return w.plan
}

func ranked(models []WarmModel, class modelspec.Class) []WarmModel {
	var out []WarmModel
	for _, m := range models {
		if m.Class == class && (!m.NoRoom || m.Busy) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b WarmModel) int {
		if a.Busy != b.Busy {
			if a.Busy {
				return -1
			}
			return 1
		}
		return cmp.Or(b.LastUsed.Compare(a.LastUsed), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return out
}

type keeper struct {
	pool  modelspec.WarmPool
	now   time.Time
	left  float64 // GPU-hours that nobody before needs
	broke bool    // nothing was left from the start
	plan  WarmPlan
}

func (w *keeper) class(c modelspec.WarmClass, models []WarmModel) {
	served := WarmServed{Class: c.Class, GPUMemory: c.GPUMemory, GPUs: c.GPUs}
	served.Hot.Wanted, served.Buffers.Wanted = c.At(w.now)
	most := func(of func(modelspec.WarmSchedule) int, n int) int {
		for _, s := range c.Schedules {
			n = max(n, of(s))
		}
		return n
	}
	hot := func(at time.Time) int { n, _ := c.At(at); return n }
	for k := 1; k <= most(func(s modelspec.WarmSchedule) int { return s.Hot }, c.Hot); k++ {
		if k > len(models) {
			if k <= served.Hot.Wanted && served.Why == "" {
				served.Why = fmt.Sprintf("%d models of class %s may sleep and have room", len(models), c.Class)
			}
			break
		}
		m := models[k-1]
		paid := w.take(float64(m.GPUs) * w.hours(c, func(at time.Time) bool { return hot(at) >= k }))
		switch {
		case k > served.Hot.Wanted:
		case paid:
			served.Hot.Kept++
			w.plan.Keep[m.Name] = fmt.Sprintf("%d of %d of class %s", k, served.Hot.Wanted, c.Class)
		case m.Busy:
			served.Hot.Kept++ // for its callers, and not for the pool
		default:
			served.Why = w.why()
		}
	}
	buffers := func(at time.Time) int { _, n := c.At(at); return n }
	for k := 1; k <= most(func(s modelspec.WarmSchedule) int { return s.Buffers }, c.Buffers); k++ {
		paid := w.take(float64(c.GPUs) * w.hours(c, func(at time.Time) bool { return buffers(at) >= k }))
		switch {
		case k > served.Buffers.Wanted:
		case paid:
			served.Buffers.Kept++
		default:
			served.Why = w.why()
		}
	}
	w.plan.Classes = append(w.plan.Classes, served)
}

// take sets GPU-hours aside; false if nothing was left for any of them.
func (w *keeper) take(hours float64) bool {
	paid := w.left > 0
	w.left -= hours
	return paid
}

func (w *keeper) why() string {
	if w.broke {
		return fmt.Sprintf("the %g GPU-hours of %s are spent", w.pool.GPUHoursPerDay, w.now.Format(time.DateOnly))
	}
	return fmt.Sprintf("what is left of the %g GPU-hours of %s is set aside for what comes before it", w.pool.GPUHoursPerDay, w.now.Format(time.DateOnly))
}

// hours is for how long something is wanted between now and midnight.
func (w *keeper) hours(c modelspec.WarmClass, wanted func(time.Time) bool) float64 {
	year, month, day := w.now.Date()
	at := func(minutes int) time.Time {
		return time.Date(year, month, day, 0, minutes, 0, 0, w.now.Location())
	}
	edges := []time.Time{w.now, at(24 * 60)}
	for _, m := range c.Edges() {
		if t := at(m); t.After(w.now) {
			edges = append(edges, t)
		}
	}
	slices.SortFunc(edges, time.Time.Compare)
	var sum time.Duration
	for i, from := range edges[:len(edges)-1] {
		if wanted(from) {
			sum += edges[i+1].Sub(from)
		}
	}
	return sum.Hours()
}
