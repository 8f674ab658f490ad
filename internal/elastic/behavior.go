package elastic

import (
	"math"
	"slices"
	"time"
)

// Behavior is HPA v2's behavior.
type Behavior struct {
	Up   Rules `json:"scaleUp"`
	Down Rules `json:"scaleDown"`
}

// Rules is one direction of it.
type Rules struct {
	Window    time.Duration
	Policies  []Policy
	Select    Select
	Tolerance float64 // of the ratio of value to target
}

// Policy is the most that may change within a period.
type Policy struct {
	Percent bool // else Pods
	Value   int
	Period  time.Duration
}

// Select says which policy counts; the zero value is Max.
type Select string

// The selections.
const (
	SelectMax      Select = "Max"
	SelectMin      Select = "Min"
	SelectDisabled Select = "Disabled"
)

func (b Behavior) within(ratio float64) bool {
	return 1-b.Down.Tolerance <= ratio && ratio <= 1+b.Up.Tolerance
}

// History is what windows and rates need of the past; it belongs into the
// status of what is scaled.
type History struct {
	Since     time.Time  `json:"since"` // when it began
	Proposals []Proposal `json:"proposals,omitempty"`
	Ups       []Change   `json:"ups,omitempty"`
	Downs     []Change   `json:"downs,omitempty"`
	BurstAt   time.Time  `json:"burstAt,omitzero"`
	Level     float64    `json:"level,omitempty"` // the proposals' average, if they are smoothed
	LevelAt   time.Time  `json:"levelAt,omitzero"`
	Seen      []string   `json:"seen,omitempty"` // metrics that had a value
}

// Proposal is what the metrics proposed once.
type Proposal struct {
	At       time.Time `json:"at"`
	Replicas int       `json:"replicas"`
}

// Change is by how much the count was changed once.
type Change struct {
	At time.Time `json:"at"`
	By int       `json:"by"`
}

// started begins a history with the present count, so that what runs does not
// shrink before a window's worth is known. It copies: Decide must not change
// what it was given.
func (h History) started(replicas int, now time.Time) History {
	if h.Since.IsZero() {
		h.Since = now
	}
	if len(h.Proposals) == 0 {
		h.Proposals = []Proposal{{now, replicas}}
	}
	h.Proposals = append([]Proposal(nil), h.Proposals...)
	h.Ups = append([]Change(nil), h.Ups...)
	h.Downs = append([]Change(nil), h.Downs...)
	h.Seen = append([]string(nil), h.Seen...)
	return h
}

func (h *History) saw(metric string) {
	if !slices.Contains(h.Seen, metric) {
		h.Seen = append(h.Seen, metric)
	}
}

// record keeps a change for the rate policies. HPA reuses one outdated place
// per change, judged by the periods of that direction alone; which of them are
// still there when the other direction looks, is part of its behaviour.
func (h *History) record(b Behavior, from, to int, now time.Time) {
	changes, rules := &h.Ups, b.Up
	if to < from {
		changes, rules = &h.Downs, b.Down
	}
	if to == from {
		return
	}
	var longest time.Duration
	for _, p := range rules.Policies {
		longest = max(longest, p.Period)
	}
	place := -1
	for i, c := range *changes {
		if c.At.Before(now.Add(-longest)) {
			place = i
		}
	}
	by := Change{now, max(to-from, from-to)}
	if place < 0 {
		*changes = append(*changes, by)
	} else {
		(*changes)[place] = by
	}
}

// step is one normalisation.
type step struct {
	spec     Spec
	now      time.Time
	current  int
	proposal int
	burst    bool
}

// normalise takes a proposal through the windows, the rates and the bounds,
// and names what limited it, in that order.
func (h *History) normalise(s step) (int, []string) {
	var limits []string
	n := h.stabilise(s)
	if s.burst {
		n = max(s.current, s.proposal)
		limits = append(limits, ReasonBurst)
	} else if n != s.proposal && s.proposal >= s.current {
		limits = append(limits, ReasonUpWindow)
	} else if n != s.proposal {
		limits = append(limits, ReasonDownWindow)
	}
	bounded, reason := h.bound(s, n)
	if reason != "" {
		limits = append(limits, reason)
	}
	return bounded, limits
}

// stabilise keeps the count between the least proposal of the up window and
// the greatest of the down window, and remembers this one.
func (h *History) stabilise(s step) int {
	up, down := s.proposal, s.proposal
	upFrom, downFrom := s.now.Add(-s.spec.Behavior.Up.Window), s.now.Add(-s.spec.Behavior.Down.Window)
	kept := h.Proposals[:0]
	for _, p := range h.Proposals {
		if p.At.After(upFrom) {
			up = min(up, p.Replicas)
		}
		if p.At.After(downFrom) {
			down = max(down, p.Replicas)
		}
		// Of equal proposals the latest alone decides, which keeps the history
		// as short as there are counts.
		if p.Replicas != s.proposal && (!p.At.Before(upFrom) || !p.At.Before(downFrom)) {
			kept = append(kept, p)
		}
	}
	h.Proposals = append(kept, Proposal{s.now, s.proposal})
	return min(max(s.current, up), down)
}

// bound applies rate policies, minimum and maximum. With sleep allowed, the
// metrics still keep one replica: only idleness ends the last one.
func (h *History) bound(s step, n int) (int, string) {
	least := max(s.spec.Min, 1)
	switch {
	case n > s.current:
		rate := max(h.limit(s, s.spec.Behavior.Up, 1), s.current)
		most, reason := s.spec.Max, ReasonTooMany
		if most > rate {
			most, reason = rate, ReasonUpRate
		}
		if n > most {
			return most, reason
		}
	case n < s.current:
		rate := min(h.limit(s, s.spec.Behavior.Down, -1), s.current)
		reason := ReasonTooFew
		if least < rate {
			least, reason = rate, ReasonDownRate
		}
		if n < least {
			return least, reason
		}
	}
	return n, ""
}

// limit is how far the policies let the count go in a direction.
func (h *History) limit(s step, r Rules, sign int) int {
	if r.Select == SelectDisabled {
		return s.current
	}
	least, most := math.MaxInt32, math.MinInt32
	for _, p := range r.Policies {
		start := s.current - changed(h.Ups, s.now, p.Period) + changed(h.Downs, s.now, p.Period)
		n := start + sign*p.Value
		if part := float64(start) * (1 + float64(sign*p.Value)/100); p.Percent && sign > 0 {
			n = ceil(part) // rounded down, one replica would never grow
		} else if p.Percent {
			n = int(part)
		}
		least, most = min(least, n), max(most, n)
	}
	if (r.Select == SelectMin) == (sign > 0) {
		return least
	}
	return most
}

func changed(changes []Change, now time.Time, period time.Duration) (n int) {
	for _, c := range changes {
		if c.At.After(now.Add(-period)) {
			n += c.By
		}
	}
	return n
}
