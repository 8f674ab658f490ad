package simulate

import (
	"fmt"
	"time"
)

// Match is a policy against a baseline when its one dial, the load that a
// replica should have, is turned until the two agree in one figure. Nil: no
// position of the dial does as well.
type Match struct {
	Name           string  `json:"name"`
	SameAttainment *Result `json:"sameAttainment,omitempty"` // as few late ones, fewest GPU-hours
	SameHours      *Result `json:"sameGPUHours,omitempty"`   // as few GPU-hours, fewest late ones
	Saved          float64 `json:"gpuHoursSaved"`            // share, at the same attainment
	Avoided        float64 `json:"lateAvoided"`              // share, at the same GPU-hours
}

// dials are the positions that are tried, in percent: of a replica's capacity,
// or of a replica's minute that a clairvoyant pays for a request.
var dials = []int{20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 110, 120, 130, 150, 200, 300} //nolint:gochecknoglobals // a constant list

// Against turns the dial on the trace before the model's warm-up ends, or on
// all of it if there is none, and reports those two positions on the rest.
func Against(trace []Request, m Model, base Policy, dial func(percent int) Policy) (Match, error) {
	seen, learn := trace, m
	if m.Warmup > 0 {
		learn.Warmup = 0
		for n, q := range trace {
			if q.At >= m.Warmup {
				seen = trace[:n]
				break
			}
		}
	}
	var out Match
	goal, err := Run(seen, learn, base)
	if err != nil {
		return out, err
	}
	cheapest, best := 0, 0 // percent
	hours, late := goal.GPUHours, goal.Late
	for _, percent := range dials {
		r, err := Run(seen, learn, dial(percent))
		if err != nil {
			return out, err
		}
		out.Name = r.Name
		if r.Late <= goal.Late && r.GPUHours <= hours {
			cheapest, hours = percent, r.GPUHours
		}
		if r.GPUHours <= goal.GPUHours && r.Late <= late {
			best, late = percent, r.Late
		}
	}
	final, err := Run(trace, m, base)
	if err != nil {
		return out, err
	}
	report := func(percent int) (*Result, error) {
		if percent == 0 {
			return nil, nil //nolint:nilnil // no position is an answer
		}
		r, err := Run(trace, m, dial(percent))
		r.Name = fmt.Sprintf("%s at %d %%", r.Name, percent)
		return &r, err
	}
	if out.SameAttainment, err = report(cheapest); err == nil && out.SameAttainment != nil {
		out.Saved = 1 - out.SameAttainment.GPUHours/final.GPUHours
	}
	if err != nil {
		return out, err
	}
	if out.SameHours, err = report(best); err == nil && out.SameHours != nil && final.Late > 0 {
		out.Avoided = 1 - float64(out.SameHours.Late)/float64(final.Late)
	}
	return out, err
}

// ClairvoyantDial turns the price that a clairvoyant pays.
func ClairvoyantDial(trace []Request, m Model) func(int) Policy {
	return func(percent int) Policy {
		return Clairvoyant(trace, m, time.Duration(percent)*time.Minute/2000)
	}
}
