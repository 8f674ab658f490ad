// Package elastic decides how many replicas a model should have (delivery
// account): signals, a policy and a budget in, a count and its reasons in
// figures out. It is pure: the clock, the history and all measurements are
// parameters, so that a controller, a dry run and a simulator decide alike.
//
// The arithmetic is that of the HorizontalPodAutoscaler controller of
// Kubernetes 1.37 (pkg/controller/podautoscaler); testdata holds what that
// controller decided, and the tests compare step for step. On top come what it
// has not: sleep and wake-up, bursts, starts under way and a budget.
package elastic

import (
	"fmt"
	"time"
)

// Reasons of a decision.
const (
	ReasonDesired    = "DesiredWithinRange"  // the metrics' proposal, as it is
	ReasonMissing    = "MetricMissing"       // held: a signal is unknown, and unknown is not zero
	ReasonActivated  = "Activated"           // first request to a sleeping model
	ReasonAsleep     = "Asleep"              // no replica, and nobody asks
	ReasonIdle       = "Idle"                // nothing to do for the idle time
	ReasonTooMany    = "TooManyReplicas"     // above the maximum
	ReasonTooFew     = "TooFewReplicas"      // below the minimum
	ReasonUpWindow   = "ScaleUpStabilized"   // a lower proposal in the up window counts
	ReasonDownWindow = "ScaleDownStabilized" // a higher proposal in the down window counts
	ReasonUpRate     = "ScaleUpLimit"        // a rate policy slows the growth
	ReasonDownRate   = "ScaleDownLimit"      // a rate policy slows the shrinking
	ReasonBurst      = "Burst"               // the up window does not delay a burst, nothing shrinks after it
	ReasonBudget     = "BudgetBlocked"       // the budget does not pay for more
	ReasonKept       = "KeptWarm"            // idle, and one replica stays in its pool's warm minimum
	ReasonPrewarmed  = "Prewarmed"           // woken before anybody asks, for the same
)

// MissingGateway stands among the missing metrics where not every gateway was
// heard.
const MissingGateway = "gateway"

// Spec is what a model's owner wants.
type Spec struct {
	Min, Max int
	Metrics  []Metric // the greatest proposal counts
	Behavior Behavior
	// Idle is how long a model with Min 0 stays up without traffic, counted
	// from Ready; 0: it never sleeps.
	Idle time.Duration
	// Burst is the ratio of proposal to count from which the up window does
	// not delay growth and nothing shrinks for a down window; 0: never.
	Burst float64
	// Smooth averages the metrics' proposals over about this time, so that a
	// burst that is over before a replica would be ready orders few; 0: not.
	Smooth time.Duration
	// Keep is for how long the need of a burst is kept where starting a
	// replica takes longer than a burst (Paced).
	Keep time.Duration
	// Warm says why one replica stays although nobody asks; empty: none does.
	Warm string
}

// Signals is what is known of a model at one moment.
type Signals struct {
	Replicas int                // what the scale target asks for now
	Pods     []Pod              // what exists of them
	Values   map[string]Reading // by metric
	// Waiting and InFlight are the gateways' own counts. Blind says that not
	// all gateways were heard: there may be more, and nothing goes to sleep.
	Waiting, InFlight int
	Blind             bool
	LastRequest       time.Time // zero: none ever
	ReadySince        time.Time // of the replica that is Ready longest; zero: none is
}

// Pod is one replica.
type Pod struct {
	Name  string
	State PodState
}

// PodState is how far a replica is.
type PodState int

// The states. A replica that runs but is not ready, counts as HPA counts it:
// by whether it has a value.
const (
	PodPending PodState = iota
	PodRunning
	PodReady
	PodEnding
)

// Budget bounds growth; the zero value bounds nothing.
type Budget struct {
	Bounded bool
	Funded  int    // replicas that are paid for
	Free    int    // more replicas that the free slots would pay for
	Why     string // the ledger's figures, for the explanation
}

// Decision is a count and why.
type Decision struct {
	At        time.Time `json:"at"`
	From      int       `json:"from"`
	Replicas  int       `json:"to"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	LimitedBy []string  `json:"limitedBy,omitempty"`
	Inputs    []Input   `json:"inputs,omitempty"`
	// Missing names the metrics that have no value.
	Missing []string `json:"missing,omitempty"`
	Next    History  `json:"-"` // to be kept, and given to the next Decide
}

// Decide says how many replicas there should be at now. history is the Next of
// the decision before, or zero after a restart: then nothing shrinks for one
// down window.
func Decide(spec Spec, in Signals, history History, budget Budget, now time.Time) Decision {
	d := &Decision{At: now, From: in.Replicas, Replicas: in.Replicas, Reason: ReasonDesired, Next: history.started(in.Replicas, now)}
	d.want(spec, in, now)
	d.afford(budget)
	d.Next.record(spec.Behavior, d.From, d.Replicas, now)
	return *d
}

// want decides as if everything were free.
func (d *Decision) want(spec Spec, in Signals, now time.Time) {
	busy := in.Waiting+in.InFlight > 0 || in.Blind
	switch n := in.Replicas; {
	case n == 0 && in.Waiting > 0:
		d.Next.LevelAt = time.Time{}
		d.set(max(1, spec.Min), ReasonActivated, "%d waiting at no replica", in.Waiting)
	case n == 0 && spec.Min == 0 && spec.Warm != "":
		d.Next.LevelAt = time.Time{}
		d.set(1, ReasonPrewarmed, "nobody waits yet; %s", spec.Warm)
	case n == 0 && spec.Min == 0:
		d.set(0, ReasonAsleep, "no replica, and no request waits")
	case n < spec.Min:
		d.set(spec.Min, ReasonTooFew, "%d is below the minimum of %d", n, spec.Min)
	case n > spec.Max:
		d.set(spec.Max, ReasonTooMany, "%d is above the maximum of %d", n, spec.Max)
	case !busy && spec.slept(in, d.Next, now) && spec.Warm != "":
		d.set(1, ReasonKept, "no request for %s, idle after %s; %s", now.Sub(idleFrom(in)).Round(time.Second), spec.Idle, spec.Warm)
	case !busy && spec.slept(in, d.Next, now):
		d.set(0, ReasonIdle, "no request for %s, idle after %s", now.Sub(idleFrom(in)).Round(time.Second), spec.Idle)
	default:
		d.byMetrics(spec, in, now)
	}
}

// byMetrics takes the greatest proposal through windows and rates.
func (d *Decision) byMetrics(spec Spec, in Signals, now time.Time) {
	proposal, ok := d.propose(spec, in)
	if !ok {
		d.set(in.Replicas, ReasonMissing, "unknown: %v; %d replicas stay, because unknown is not zero", d.Missing, in.Replicas)
		return
	}
	if spec.Smooth > 0 {
		proposal = d.Next.smooth(min(proposal, spec.Max), in.Replicas, spec.Smooth, now)
	}
	if spec.Burst > 0 && float64(proposal) >= spec.Burst*float64(in.Replicas) && in.ready() > 0 {
		d.Next.BurstAt = now
	}
	s := step{spec: spec, now: now, current: in.Replicas, proposal: proposal}
	s.burst = !d.Next.BurstAt.IsZero() && now.Sub(d.Next.BurstAt) < spec.Behavior.Down.Window
	n, limits := d.Next.normalise(s)
	if in.Blind && n < in.Replicas {
		d.Missing = append(d.Missing, MissingGateway)
		d.set(in.Replicas, ReasonMissing, "not every gateway was heard: there may be more requests than are known; %d replicas stay", in.Replicas)
		return
	}
	reason := ReasonDesired
	if len(limits) > 0 {
		reason = limits[len(limits)-1]
	}
	d.LimitedBy = append(d.LimitedBy, limits...)
	d.set(n, reason, "the metrics propose %d", proposal)
}

// afford bounds growth by the budget; it never shrinks a model below what it
// has, which is the ledger's to do.
func (d *Decision) afford(b Budget) {
	if most := max(b.Funded+max(b.Free, 0), d.From); b.Bounded && d.Replicas > most {
		wanted := d.Replicas
		d.LimitedBy = append(d.LimitedBy, ReasonBudget)
		d.set(most, ReasonBudget, "%d wanted, %d funded and %d more affordable: %s", wanted, b.Funded, b.Free, b.Why)
	}
}

func (d *Decision) set(n int, reason, format string, args ...any) {
	d.Replicas, d.Reason, d.Message = n, reason, fmt.Sprintf(format, args...)
}

// slept says whether a model that nobody asks may go to sleep. A model that is
// still loading was asked for; after a restart nobody knows for how long.
func (s Spec) slept(in Signals, h History, now time.Time) bool {
	if s.Min > 0 || s.Idle <= 0 || in.Replicas == 0 || in.ReadySince.IsZero() {
		return false
	}
	return now.Sub(idleFrom(in)) >= s.Idle && now.Sub(h.Since) >= min(s.Idle, s.Behavior.Down.Window)
}

func idleFrom(in Signals) time.Time {
	if in.LastRequest.After(in.ReadySince) {
		return in.LastRequest
	}
	return in.ReadySince
}

func (in Signals) ready() (n int) {
	for _, p := range in.Pods {
		if p.State == PodReady {
			n++
		}
	}
	return n
}
