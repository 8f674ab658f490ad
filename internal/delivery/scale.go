package delivery

import (
	"context"
	"errors"
	"time"

	"modeldock.io/internal/budget"
)

// ErrScaled says that the number of replicas is not what the caller saw:
// somebody else changed it. Nothing was changed; look again.
var ErrScaled = errors.New("the number of replicas was changed meanwhile")

// Scalable is a target whose objects keep a number of replicas that is asked
// for, beside the number that is paid for: what runs is the lesser of both.
type Scalable interface {
	// Scale asks for step.To replicas of ref's object, if step.From are asked
	// for now, and remembers the step. It does not wait for replicas. Equal
	// counts only remember. Errors: ErrScaled, or budget.ErrNotFound where
	// there is no such object that is not going away.
	Scale(ctx context.Context, ref budget.Ref, step ScalingStep) error
}

// MaxScalingSteps is how many steps an object remembers.
const MaxScalingSteps = 32

// ScalingStep is one change of the number of replicas, and why.
type ScalingStep struct {
	At        time.Time      `json:"at"`
	From      int            `json:"from"`
	To        int            `json:"to"`
	Reason    string         `json:"reason"`
	Message   string         `json:"message,omitempty"`
	LimitedBy []string       `json:"limitedBy,omitempty"`
	Inputs    []ScalingInput `json:"inputs,omitempty"`
	// Busy are the requests that run on each replica, by UID: where the count
	// falls, the least loaded goes. It is not remembered.
	Busy map[string]int `json:"-"`
}

// ScalingInput is one signal's part in a step; without a value it was unknown.
type ScalingInput struct {
	Metric   string   `json:"metric"`
	Value    *float64 `json:"value,omitempty"`
	Target   float64  `json:"target"`
	Proposal int      `json:"proposal"`
}

// Remember appends a step and drops the oldest beyond MaxScalingSteps. What it
// was given is not changed.
func Remember(steps []ScalingStep, step ScalingStep) []ScalingStep {
	first := max(0, len(steps)+1-MaxScalingSteps)
	step.Busy = nil
	return append(append([]ScalingStep(nil), steps[first:]...), step)
}
