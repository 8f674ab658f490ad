package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/elastic"
)

// Result is what a policy did to a trace.
type Result struct {
	Name             string      `json:"name"`
	GPUHours         float64     `json:"gpuHours"`
	Attainment       float64     `json:"attainment"` // share of first chunks within the objective
	Late             int         `json:"late"`
	FirstChunk       Percentiles `json:"firstChunkSeconds"`
	Wait             Percentiles `json:"waitSeconds"`
	ColdStarts       int         `json:"coldStarts"`
	Wakes            int         `json:"wakes"` // of replicas that slept, instead of cold starts
	DirectionChanges int         `json:"directionChanges"`
	// PerDownWindow is DirectionChanges per down window, and Closest the most
	// of them within any one.
	PerDownWindow float64            `json:"directionChangesPerDownWindow"`
	Closest       int                `json:"mostDirectionChangesInADownWindow"`
	End           time.Duration      `json:"-"` // the figures count until then
	Timeline      []Point            `json:"-"`
	Decisions     []elastic.Decision `json:"-"` // that changed the count

	firsts, waits []time.Duration
}

// Percentiles are of seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// FirstChunks are how long requests waited for their first chunk, shortest first.
func (o Result) FirstChunks() []time.Duration { return slices.Clone(o.firsts) }

func (o *Result) finish(r *run) {
	o.End = r.now
	for _, c := range r.replicas {
		r.pay(c)
	}
	for _, f := range o.firsts {
		if f > r.model.Objective {
			o.Late++
		}
	}
	o.DirectionChanges = len(r.turns)
	window := r.policy.Spec.Behavior.Down.Window
	if r.policy.Asleep > 0 && r.policy.Fitted != nil {
		window = r.policy.Fitted(elastic.Ladder{Start: r.model.ColdStart, Wake: r.model.Wake, Places: r.policy.Asleep}).Behavior.Down.Window
	}
	if w := window; w > 0 {
		o.PerDownWindow = float64(len(r.turns)) * w.Seconds() / (r.now - r.model.Warmup).Seconds()
		for i, at := range r.turns {
			o.Closest = max(o.Closest, 1)
			for j := i + 1; j < len(r.turns) && r.turns[j]-at < w; j++ {
				o.Closest = max(o.Closest, j-i+1)
			}
		}
	}
	o.Attainment = 1 - float64(o.Late)/float64(len(o.firsts))
	o.FirstChunk, o.Wait = percentiles(o.firsts), percentiles(o.waits)
}

func percentiles(all []time.Duration) Percentiles {
	slices.Sort(all)
	at := func(p float64) float64 { return all[min(len(all)-1, int(p*float64(len(all))))].Seconds() }
	return Percentiles{at(0.5), at(0.95), at(0.99)}
}

// Plot draws the replicas over time, one column per part of it.
func (o Result) Plot(to io.Writer, width int) error {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	if len(o.Timeline) == 0 {
		return nil
	}
	end, most := o.Timeline[len(o.Timeline)-1].At+1, 1
	columns := make([]int, width)
	for _, p := range o.Timeline {
		c := int(int64(p.At) * int64(width) / int64(end))
		columns[c], most = max(columns[c], p.Replicas), max(most, p.Replicas)
	}
	var line strings.Builder
	for _, n := range columns {
		line.WriteRune(blocks[(n*8+most-1)/most])
	}
	_, err := fmt.Fprintf(to, "%-24s 0…%-3d |%s|\n", o.Name, most, line.String())
	if err != nil {
		return fmt.Errorf("draw the replicas of %s: %w", o.Name, err)
	}
	return nil
}

// CSV writes the timelines of all results.
func CSV(to io.Writer, all []Result) error {
	if _, err := fmt.Fprintln(to, "policy,seconds,replicas,ready,waiting,running,asleep,coldStarts,wakes"); err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	for _, o := range all {
		for _, p := range o.Timeline {
			if _, err := fmt.Fprintf(to, "%q,%g,%d,%d,%d,%d,%d,%d,%d\n", o.Name, p.At.Seconds(), p.Replicas, p.Ready, p.Waiting, p.Running, p.Asleep, p.ColdStarts, p.Wakes); err != nil {
				return fmt.Errorf("write the timeline of %s: %w", o.Name, err)
			}
		}
	}
	return nil
}
