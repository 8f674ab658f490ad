package elastic

import (
	"math"
	"time"
)

// LeadFollow is the longest start-up with which replicas can follow bursts,
// which last tens of seconds.
const LeadFollow = 15 * time.Second

// idleLead is the start-up that the bundles' idle times are meant for.
const idleLead = time.Minute

// Paced fits a policy to the measured time from a decision to a ready replica,
// where every replica takes as long.
func (s Spec) Paced(lead time.Duration) Spec { return s.PacedFor(lead, lead) }

// PacedFor fits a policy to how long the next replica takes, and how long it
// takes to have one back that is given up: less, where that one sleeps.
//
// Where the next one comes within a burst, replicas follow the load, at most two
// or all of them again per start-up. Where it does not, what is ordered in a
// burst comes too late for it: proposals are averaged. A replica is given up
// after the time that it takes to have it back: then keeping it has cost as
// much as starting another (the break-even of the ski-rental problem). Where
// that is longer than a burst, what bursts of the past needed is kept. The idle
// time grows and shrinks with it.
func (s Spec) PacedFor(next, back time.Duration) Spec {
	if next <= 0 || back <= 0 {
		return s
	}
	s.Behavior.Up.Window = 0
	if next <= LeadFollow {
		s.Smooth = 0
		s.Behavior.Up.Policies = []Policy{{Value: 2, Period: next}, {Percent: true, Value: 100, Period: next}}
	} else {
		s.Smooth = next / 2
	}
	s.Behavior.Down.Policies = []Policy{{Percent: true, Value: 100, Period: 15 * time.Second}}
	s.Behavior.Down.Window = max(back, 5*time.Second)
	if back > LeadFollow {
		s.Behavior.Down.Window = max(back, s.Keep)
	}
	scaled := time.Duration(float64(s.Idle) * float64(back) / float64(idleLead))
	s.Idle = min(max(scaled, idleLead), 2*s.Idle)
	return s
}

// smooth is an exponential average of proposals, rounded: each is a whole
// number that was rounded up already.
func (h *History) smooth(proposal, current int, over time.Duration, now time.Time) int {
	if h.LevelAt.IsZero() {
		h.Level, h.LevelAt = float64(max(current, 1)), now
	}
	h.Level += (float64(proposal) - h.Level) * (1 - math.Exp(-now.Sub(h.LevelAt).Seconds()/over.Seconds()))
	h.LevelAt = now
	return int(math.Round(h.Level))
}
