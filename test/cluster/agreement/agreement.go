// Package agreement replays a recorded trace against a model that really
// scales, and through internal/elastic/simulate, and says how far the two are
// apart in what the replicas cost and in how many callers waited too long.
package agreement

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/internal/modelspec"
)

// What the replicas of the model are like.
const (
	loadTime    = 3 * time.Second
	firstToken  = 200 * time.Millisecond
	perToken    = 40 * time.Millisecond
	mostTokens  = 100 // of an answer: longer ones would outlast the trace
	concurrency = 2
	mostAtOnce  = 6 // replicas
	idle        = 8 * time.Second
	objective   = time.Second
)

// The part of the trace: bursts, a gap in which the model falls asleep, and
// bursts again; of its requests every fourth.
const (
	traceFile = "../../../bench/traces/AzureLLMInferenceTrace_code.csv"
	cutFrom   = 180 * time.Second
	cutTo     = 330 * time.Second
	cutEvery  = 4
)

// Trace is that part.
func Trace() ([]simulate.Request, error) {
	file, err := os.Open(traceFile)
	if err != nil {
		return nil, fmt.Errorf("open the trace: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	all, err := simulate.Read(file, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", traceFile, err)
	}
	var cut []simulate.Request
	n := 0
	for _, q := range all {
		if q.At < cutFrom || q.At >= cutTo {
			continue
		}
		if n%cutEvery == 0 {
			cut = append(cut, simulate.Request{At: q.At - cutFrom, Answer: min(max(q.Answer, 1), mostTokens)})
		}
		n++
	}
	return cut, nil
}

// Model is what is served, as the platform knows it.
func Model(name string) modelspec.Model {
	m := modelspec.Default(name)
	m.Replicas = modelspec.Replicas{Min: 0, Max: mostAtOnce}
	m.GPUMemory = 512
	m.Scaling = &modelspec.Scaling{IdleSeconds: int(idle.Seconds())}
	m.Args = []string{
		"--load-time=" + loadTime.String(), "--ttft=" + firstToken.String(), "--token-time=" + perToken.String(),
		fmt.Sprintf("--tokens=%d", mostTokens), fmt.Sprintf("--concurrency=%d", concurrency),
	}
	return m
}

// Measured is what was learnt of the platform before the trace.
type Measured struct {
	Start time.Duration // from the call of a sleeping model to a replica that serves it
	Lead  time.Duration // of it, from when the replica is there until it is ready, at best: what scalers measure
	Stop  time.Duration // from the decision to end a replica until it is gone
	First time.Duration // from a call to its first chunk, where nothing waits
	Token time.Duration // for each chunk after that, while the trace was replayed
}

func (m Measured) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%s to start, %s of it from process to readiness, %s to stop, %s to the first chunk, %s for each that follows", round(m.Start), round(m.Lead), round(m.Stop), round(m.First), round(m.Token))
}

// Side is what became of the trace.
type Side struct {
	Name       string
	GPUSeconds float64
	Starts     int
	Firsts     []time.Duration // of each request, from its arrival to its first chunk
	Course     []int           // replicas that hold cards, each second
	Streaming  time.Duration   // from the first chunks to the ends of all answers
}

// Late counts the first chunks that came after the objective.
func (s Side) Late() (n int) {
	for _, f := range s.Firsts {
		if f > objective {
			n++
		}
	}
	return n
}

func (s Side) String() string {
	sorted := slices.Clone(s.Firsts)
	slices.Sort(sorted)
	at := func(p float64) float64 { return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))].Seconds() }
	var course strings.Builder
	for _, n := range s.Course {
		fmt.Fprintf(&course, "%d", min(n, 9))
	}
	return fmt.Sprintf("%-10s %6.1f GPU-seconds, %3d of %d late, first chunk p50 %.2f s, p95 %.2f s, p99 %.2f s, %d starts\n  %s",
		s.Name, s.GPUSeconds, s.Late(), len(s.Firsts), at(0.5), at(0.95), at(0.99), s.Starts, course.String())
}

// Simulated is what the simulator says of the same time.
func Simulated(trace []simulate.Request, m Measured, end time.Duration) (Side, error) {
	how := simulate.Model{
		ColdStart: m.Start, Stop: m.Stop, Concurrency: concurrency, FirstChunk: m.First, PromptRate: 1, PerToken: m.Token,
		Objective: objective, GPUs: 1,
	}
	policy := simulate.Own("simulated", elastic.SpecOf(Model("simulated"), concurrency, m.Lead))
	r, err := simulate.Run(trace, how, policy)
	if err != nil {
		return Side{}, fmt.Errorf("simulate the trace: %w", err)
	}
	side := Side{Name: policy.Name, Starts: r.ColdStarts, Firsts: r.FirstChunks(), Course: held(r)}
	side.GPUSeconds = 3600 * r.GPUHours
	if n := len(r.Timeline); n > 0 { // neither is charged for when the other ended
		side.GPUSeconds += float64(r.Timeline[n-1].Held) * (end - r.End).Seconds()
	}
	return side, nil
}

// held is how many replicas hold cards, each second.
func held(r simulate.Result) (course []int) {
	for i, p := range r.Timeline {
		until := r.End
		if i+1 < len(r.Timeline) {
			until = r.Timeline[i+1].At
		}
		for time.Duration(len(course))*time.Second < until {
			course = append(course, p.Held)
		}
	}
	return course
}

// Apart is by how much two figures differ, as a share of the larger one.
func Apart(a, b float64) float64 {
	if most := max(a, b); most > 0 {
		return (most - min(a, b)) / most
	}
	return 0
}
