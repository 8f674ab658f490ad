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
func (s Spec) Paced(lead time.Duration) Spec { return s.PacedFor(Ladder{Start: lead}) }

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
func (s Spec) PacedFor(l Ladder) Spec {
	next, back := l.Next(), l.Back()
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
	if back < l.Start { // as many as have a place to sleep
		s.Behavior.Down.Policies = []Policy{{Value: l.Places - l.Asleep, Period: 15 * time.Second}}
	}
	s.Behavior.Down.Window = max(back, 5*time.Second)
	if back > LeadFollow {
		s.Behavior.Down.Window = max(back, s.Keep)
	}
	scaled := time.Duration(float64(s.Idle) * float64(back) / float64(idleLead))
	s.Idle = min(max(scaled, idleLead), 2*s.Idle)
	return s
}

// Ladder is what replicas of a model stand on where some may sleep.
type Ladder struct {
	Start, Wake time.Duration // until a new replica serves, and one that sleeps; 0: not known
	Asleep      int           // that sleep
	Places      int           // as many may
	Loading     int           // that were started and do not serve yet
}

// Next is how long the next replica is expected to take: to be woken, where one
// sleeps, else to start. 0: not known.
func (l Ladder) Next() time.Duration {
	if l.Asleep > 0 && l.Wake > 0 {
		return l.Wake
	}
	return l.Start
}

// Back is how long it takes to have a replica back that is given up: as long as
// waking it, where it has a place to sleep. What still loads cannot sleep and would
// be given up first, so that nothing is until it serves.
func (l Ladder) Back() time.Duration {
	if l.Wake > 0 && l.Loading == 0 && l.Asleep < l.Places {
		return l.Wake
	}
	return l.Start
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
