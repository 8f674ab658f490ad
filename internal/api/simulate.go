package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/internal/modelspec"
)

const simulatePath = "/simulate"

// Bounds of a simulation: it is computed while its caller waits.
const (
	maxTrace    = 8 << 20 // bytes of the body
	maxReplayed = 500_000 // requests
	maxSpan     = 32 * 24 * time.Hour
	maxPolicies = 8
	maxServed   = time.Hour // of one request; the sum of all is a time, too
)

// referencePeriod is how often an HPA's controller asks.
const referencePeriod = 15 * time.Second

// Simulate replays a trace through the decisions that scale models. A caller
// has one at a time, and a few run at once.
func (s handlers) Simulate(c *gin.Context) {
	var in openapi.Simulate
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	end, err := s.beginReplay(callerOf(who(c)))
	if err != nil {
		s.fail(c, err)
		return
	}
	defer end()
	out, err := replay(c.Request.Context(), in)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, out)
}

func replay(ctx context.Context, in openapi.Simulate) (out openapi.Simulation, err error) {
	m := modelspec.Default("simulated")
	m.Replicas = modelspec.Replicas{Min: 0, Max: elastic.Reference().Max}
	if in.Model != nil {
		overlay(&m, *in.Model)
	}
	if err := m.Validate(); err != nil {
		return out, err
	}
	how, err := replicaOf(m, in.Replica)
	if err != nil {
		return out, err
	}
	policies, err := policiesOf(m, how, value(in.Policies, nil))
	if err != nil {
		return out, err
	}
	trace, err := simulate.ReadAtMost(strings.NewReader(in.Trace), uint64(value(in.Seed, 1)), value(in.Share, 1), maxReplayed) //nolint:gosec // any number is a seed
	if err != nil {
		return out, invalid("trace", "%v", err)
	}
	if len(trace) == 0 || trace[len(trace)-1].At > maxSpan {
		return out, invalid("trace", "the trace must have requests, within %s at most", maxSpan)
	}
	if err := checkServed(trace, how); err != nil {
		return out, err
	}
	if err := checkSteps(trace[len(trace)-1].At, policies); err != nil {
		return out, err
	}
	out = openapi.Simulation{Trace: value(in.Name, "trace"), Requests: len(trace), Policies: []openapi.SimulationResult{}}
	for _, p := range policies {
		p.Stopped = func() bool { return ctx.Err() != nil }
		r, err := simulate.Run(trace, how, p)
		if errors.Is(err, simulate.ErrStopped) {
			return out, errors.New("the caller left")
		}
		if err != nil {
			return out, invalid("policies", "%v", err)
		}
		out.Policies = append(out.Policies, resultWire(r))
	}
	return out, nil
}

// checkServed refuses requests that nobody has, of which no time can be told.
func checkServed(trace []simulate.Request, how simulate.Model) error {
	for n, q := range trace {
		took := how.FirstChunk.Seconds() + float64(q.Prompt)/how.PromptRate + float64(q.Answer)*how.PerToken.Seconds()
		if !(took <= maxServed.Seconds()) {
			return invalid("trace", "request %d of the trace would take a replica %.0f seconds (%d tokens of prompt, %d of answer); at most %s can be simulated", n+1, took, q.Prompt, q.Answer, maxServed)
		}
	}
	return nil
}

// replicaOf is how a replica of m behaves: as is usual for its class, unless
// it is said.
func replicaOf(m modelspec.Model, in *openapi.SimulatedReplica) (simulate.Model, error) {
	how := simulate.DefaultModel(m.Class)
	how.GPUs = m.GPUs
	if in == nil {
		return how, nil
	}
	const day = 24 * 3600
	for _, f := range []struct {
		name string
		v    *float64
		to   *time.Duration
	}{
		{"coldStartSeconds", in.ColdStartSeconds, &how.ColdStart}, {"wakeSeconds", in.WakeSeconds, &how.Wake}, {"stopSeconds", in.StopSeconds, &how.Stop}, {"firstChunkSeconds", in.FirstChunkSeconds, &how.FirstChunk},
		{"secondsPerToken", in.SecondsPerToken, &how.PerToken}, {"objectiveSeconds", in.ObjectiveSeconds, &how.Objective},
	} {
		if f.v == nil {
			continue
		}
		if !(*f.v >= 0 && *f.v <= day) {
			return how, invalid("replica."+f.name, "replica.%s must be from 0 to %d; got %g", f.name, day, *f.v)
		}
		*f.to = time.Duration(*f.v * float64(time.Second))
	}
	set(&how.Concurrency, in.Concurrency)
	set(&how.PromptRate, in.PromptTokensPerSecond)
	if how.Concurrency < 1 || how.Concurrency > 1_000_000 {
		return how, invalid("replica.concurrency", "replica.concurrency must be from 1 to 1000000; got %d", how.Concurrency)
	}
	if !(how.PromptRate >= 1 && how.PromptRate <= 1e9) {
		return how, invalid("replica.promptTokensPerSecond", "replica.promptTokensPerSecond must be from 1 to 1000000000; got %g", how.PromptRate)
	}
	return how, nil
}

func policiesOf(m modelspec.Model, how simulate.Model, in []openapi.SimulatedPolicy) ([]simulate.Policy, error) {
	if len(in) > maxPolicies {
		return nil, invalid("policies", "policies has %d entries; at most %d are compared", len(in), maxPolicies)
	}
	if len(in) == 0 {
		reference := openapi.SimulatedPolicyBase("reference-hpa")
		in = []openapi.SimulatedPolicy{{Name: "reference-hpa", Base: &reference}, {Name: "model"}}
	}
	var out []simulate.Policy
	for _, p := range in {
		one, err := policyOf(m, how, p)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// policyOf lays what a policy says over the model, as a PATCH would.
func policyOf(m modelspec.Model, how simulate.Model, in openapi.SimulatedPolicy) (simulate.Policy, error) {
	if value(in.Base, "model") == "reference-hpa" {
		p := simulate.Policy{Name: in.Name, Spec: elastic.Reference(), Period: referencePeriod}
		if in.Replicas != nil {
			set(&p.Spec.Min, in.Replicas.Min)
			set(&p.Spec.Max, in.Replicas.Max)
		}
		return p, checkBounds(p)
	}
	if value(in.Base, "model") != "model" {
		return simulate.Policy{}, invalid("policies.base", "the base of a policy must be model or reference-hpa; got %q", *in.Base)
	}
	if in.Workload != nil {
		m.Workload = modelspec.Workload(*in.Workload)
	}
	if in.Replicas != nil {
		m.Replicas = *mergedReplicas(m.Replicas, *in.Replicas)
	}
	if in.Scaling != nil {
		m.Scaling = mergedScaling(m.Scaling, *in.Scaling)
	}
	if err := m.Validate(); err != nil {
		return simulate.Policy{}, err
	}
	if m.Scaling != nil && m.Scaling.Targets.LatencyP99Milliseconds > 0 {
		return simulate.Policy{}, invalid("policies.scaling.targets.latencyP99Milliseconds", "a target of latency is not simulated; leave it out")
	}
	p := simulate.Own(cmp.Or(in.Name, "model"), elastic.SpecOf(m, how.Concurrency, how.ColdStart))
	p.Asleep = m.Asleep()
	p.Fitted = func(l elastic.Ladder) elastic.Spec { return elastic.SpecFor(m, how.Concurrency, l) }
	return p, checkBounds(p)
}

func checkBounds(p simulate.Policy) error {
	if p.Spec.Min < 0 || p.Spec.Max < max(1, p.Spec.Min) || p.Spec.Max > modelspec.MaxReplicas {
		return invalid("policies.replicas", "policy %s is between %d and %d replicas; it must be 0 ≤ min ≤ max ≤ %d, and max at least 1", p.Name, p.Spec.Min, p.Spec.Max, modelspec.MaxReplicas)
	}
	return nil
}

func resultWire(r simulate.Result) openapi.SimulationResult {
	percentiles := func(p simulate.Percentiles) openapi.SimulationPercentiles {
		return openapi.SimulationPercentiles{P50: p.P50, P95: p.P95, P99: p.P99}
	}
	return openapi.SimulationResult{
		Name: r.Name, GpuHours: r.GPUHours, Attainment: r.Attainment, Late: r.Late,
		FirstChunkSeconds: percentiles(r.FirstChunk), WaitSeconds: percentiles(r.Wait), ColdStarts: r.ColdStarts, Wakes: some(r.Wakes), DirectionChanges: r.DirectionChanges,
		Timeline: timelineWire(r.Timeline),
	}
}

// maxPoints of a timeline are as many as a picture shows.
const maxPoints = 500

// timelineWire thins a timeline: of each stretch of time the most of every
// figure stays, so that no burst is lost.
func timelineWire(points []simulate.Point) []openapi.SimulationPoint {
	out := []openapi.SimulationPoint{}
	if len(points) == 0 {
		return out
	}
	begin := points[0].At
	stretch := (points[len(points)-1].At-begin)/maxPoints + 1
	last := time.Duration(-1)
	for _, p := range points {
		if at := (p.At - begin) / stretch; at != last || len(points) <= maxPoints {
			last = at
			out = append(out, openapi.SimulationPoint{Seconds: p.At.Seconds()})
		}
		o := &out[len(out)-1]
		o.Replicas, o.Ready, o.Waiting = max(o.Replicas, p.Replicas), max(o.Ready, p.Ready), max(o.Waiting, p.Waiting)
	}
	return out
}
