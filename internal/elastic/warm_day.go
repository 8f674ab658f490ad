package elastic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"modeldock.io/internal/modelspec"
)

// Activation says how a model was found by the first caller after a pause.
type Activation string

// The activations.
const (
	ActivatedHot  Activation = "hot"  // a replica was kept for it
	ActivatedWarm Activation = "warm" // a replica started at once, on a card that was there
	ActivatedCold Activation = "cold" // it had to wait for a card, or a node, first
)

// WarmDay is what a pool spent, and what became of its callers, on one day. It
// is kept in the ledger's database while it runs.
type WarmDay struct {
	Day     string                        `json:"day"`               // in the pool's time zone, 2006-01-02
	At      time.Time                     `json:"at"`                // it counts until then
	Seconds float64                       `json:"spent"`             // of cards
	Counts  map[Activation]int            `json:"counts"`            // of activations
	Waits   map[int]int                   `json:"waits"`             // of activations, by step; see stepOf
	Woken   map[modelspec.Class]WarmTally `json:"woken"`             // those that waited, by class
	Buffers map[modelspec.Class]int       `json:"buffers,omitempty"` // that hold cards now
}

// WarmTally counts activations that waited, and for how long together.
type WarmTally struct {
	Count   int     `json:"n"`
	Seconds float64 `json:"s"`
}

// maxUnseen bounds what is charged for a time in which nobody looked: whoever
// keeps replicas looks every few seconds, or was away.
const maxUnseen = 5 * time.Minute

// Next counts until now what gpus cards were kept for. A new day begins with
// nothing but what it has seen itself.
func (d WarmDay) Next(gpus int, now time.Time) WarmDay {
	if d.At.IsZero() {
		d.At = now // nothing is known of before
	}
	if day := now.Format(time.DateOnly); day != d.Day {
		year, month, date := now.Date()
		d = WarmDay{Day: day, Buffers: d.Buffers, At: later(d.At, time.Date(year, month, date, 0, 0, 0, 0, now.Location()))}
	}
	if gap := min(now.Sub(d.At), maxUnseen); gap > 0 {
		d.Seconds += float64(gpus) * gap.Seconds()
	}
	d.At = later(d.At, now)
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// GPUHours is what was spent.
func (d WarmDay) GPUHours() float64 { return d.Seconds / 3600 }

// With counts an activation whose caller waited for so long.
func (d WarmDay) With(kind Activation, class modelspec.Class, wait time.Duration) WarmDay {
	d.Counts, d.Waits, d.Woken = cloned(d.Counts), cloned(d.Waits), cloned(d.Woken)
	d.Counts[kind]++
	d.Waits[stepOf(wait)]++
	if kind != ActivatedHot {
		t := d.Woken[class]
		d.Woken[class] = WarmTally{t.Count + 1, t.Seconds + wait.Seconds()}
	}
	return d
}

func cloned[K comparable, V any](in map[K]V) map[K]V {
	out := make(map[K]V, len(in)+1)
	for k, v := range in {
		out[k] = v
	}
	return out
}

// stepOf numbers waits so that each number is a fifth longer than the one
// before: a day's waits fit into a few dozen counts. 0 is no wait at all.
func stepOf(wait time.Duration) int {
	if wait < time.Millisecond {
		return 0
	}
	return 1 + int(math.Ceil(4*math.Log2(float64(wait)/float64(time.Millisecond))))
}

func waitOf(step int) time.Duration {
	if step <= 0 {
		return 0
	}
	return time.Duration(float64(time.Millisecond) * math.Exp2(float64(step-1)/4))
}

// P99 is what 99 of 100 activations waited at most, to a fifth; false before
// there was any.
func (d WarmDay) P99() (time.Duration, bool) {
	var all int
	steps := make([]int, 0, len(d.Waits))
	for s, n := range d.Waits {
		all += n
		steps = append(steps, s)
	}
	slices.Sort(steps)
	rank := int(math.Ceil(0.99 * float64(all)))
	for _, s := range steps {
		if rank -= d.Waits[s]; rank <= 0 {
			return waitOf(s), true
		}
	}
	return 0, false
}

// WarmGain is what one more GPU-hour would buy.
type WarmGain struct {
	Class       modelspec.Class
	Activations float64 // that would not have waited
	Seconds     float64 // that their callers would not have waited, together
	Message     string
}

// NextHour estimates where one more GPU-hour would spare callers the most
// waiting, from how often models of a class were woken so far today. nil: no
// model that is not kept was woken.
func NextHour(pool modelspec.WarmPool, day WarmDay, plan WarmPlan, models []WarmModel, now time.Time) *WarmGain {
	now = now.In(pool.Zone())
	elapsed := max(1, float64(now.Hour())+float64(now.Minute())/60)
	var best *WarmGain
	for _, class := range []modelspec.Class{modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender} {
		tally := day.Woken[class]
		var sleepers, cards int
		for _, m := range models {
			if _, kept := plan.Keep[m.Name]; m.Class == class && !kept {
				sleepers++
				cards += m.GPUs
			}
		}
		if tally.Count == 0 || sleepers == 0 {
			continue
		}
		// An hour of one model's cards, of which there are cards/sleepers.
		woken := float64(tally.Count) / elapsed / float64(cards)
		g := &WarmGain{Class: class, Activations: woken, Seconds: woken * tally.Seconds / float64(tally.Count)}
		g.Message = fmt.Sprintf("models of class %s were woken %d times today and took %.1f s each: one more GPU-hour for one of the %d that are not kept would have spared %.2f such waits",
			class, tally.Count, tally.Seconds/float64(tally.Count), sleepers, woken)
		if best == nil || cmp.Compare(g.Seconds, best.Seconds) > 0 {
			best = g
		}
	}
	return best
}
