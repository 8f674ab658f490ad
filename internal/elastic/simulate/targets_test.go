package simulate

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

const code = "AzureLLMInferenceTrace_code.csv"

func reference() Policy {
	return Policy{Name: "reference-hpa", Spec: elastic.Reference(), Period: 15 * time.Second}
}

// bundle is one as it is used, with its target turned to a share of capacity.
func bundle(class modelspec.Class, w modelspec.Workload, m Model, least int) func(percent int) Policy {
	return func(percent int) Policy {
		s := elastic.For(class, w, m.Concurrency).Paced(m.ColdStart)
		s.Min = least
		if percent > 0 {
			s.Metrics[0].Target = float64(m.Concurrency*percent) / 100
			s.Metrics[1].Target = max(s.Metrics[1].Target, float64(percent))
		}
		return Own(string(w), s)
	}
}

// until is a trace's begin.
func until(trace []Request, end time.Duration) []Request {
	n, _ := slices.BinarySearchFunc(trace, end, func(q Request, at time.Duration) int { return cmp.Compare(q.At, at) })
	return trace[:n]
}

// TestTargets: against the HPA of the example, 30 % fewer GPU-hours at its
// attainment and 40 % fewer late ones at its GPU-hours, where replicas start
// in 5 s, and of a sporadic client also where they take a minute.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trace string
		share float64
		lead  time.Duration
		least int
	}{
		{code, 1, 5 * time.Second, 1},
		{"servegen_language_m-large_client73_sporadic.csv", 0.005, time.Minute, 0},
	} {
		m := DefaultModel(modelspec.ClassLLM)
		m.ColdStart = c.lead
		trace := until(recorded(t, c.trace, c.share), 5*24*time.Hour)
		got, err := Against(trace, m, reference(), bundle(modelspec.ClassLLM, modelspec.WorkloadOnline, m, c.least))
		if err != nil || got.Saved < 0.3 || got.Avoided < 0.4 {
			t.Errorf("%s at %s: %.0f %% of the GPU-hours saved and %.0f %% of the late ones avoided, %v", c.trace, c.lead, 100*got.Saved, 100*got.Avoided, err)
		}
	}
}

// TestAsleepInsteadOfColdStarts: where a start takes a minute, replicas that
// stay loaded make the code trace cheaper and quicker than the HPA's, once each
// was started; without them it is neither.
func TestAsleepInsteadOfColdStarts(t *testing.T) {
	t.Parallel()
	m := DefaultModel(modelspec.ClassLLM)
	m.Warmup = 28*time.Minute + 38*time.Second
	trace := recorded(t, code, 1)
	goal, err := Run(trace, m, reference())
	if err != nil {
		t.Fatal(err)
	}
	fitted := func(l elastic.Ladder) elastic.Spec {
		s := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, m.Concurrency).PacedFor(l)
		s.Min = 1
		return s
	}
	for asleep, better := range map[int]bool{0: false, 16: true} {
		p := Own("online", fitted(elastic.Ladder{Start: m.ColdStart}))
		p.Asleep, p.Fitted = asleep, fitted
		r, err := Run(trace, m, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.GPUHours <= 0.75*goal.GPUHours && 2*r.Late <= goal.Late; got != better || (r.Wakes > 0) != better {
			t.Errorf("%d asleep: %.2f GPU-hours for %.2f, %d late for %d, %d wakes", asleep, r.GPUHours, goal.GPUHours, r.Late, goal.Late, r.Wakes)
		}
	}
	// From the begin, when nothing sleeps yet: what loads is not given up, so that
	// no more is late than without sleep.
	m.Warmup = 0
	late, starts := map[int]int{}, 0
	for _, asleep := range []int{0, 16} {
		p := Own("online", fitted(elastic.Ladder{Start: m.ColdStart}))
		p.Asleep, p.Fitted = asleep, fitted
		r, err := Run(trace, m, p)
		if err != nil {
			t.Fatal(err)
		}
		late[asleep], starts = r.Late, r.ColdStarts
	}
	if late[16] > late[0] || starts > 16 {
		t.Errorf("%d late where 16 may sleep, %d where none does; %d starts", late[16], late[0], starts)
	}
}

// TestLearnedElsewhere: a dial that was turned on the first half of a trace is
// still ahead at the same GPU-hours on the second.
func TestLearnedElsewhere(t *testing.T) {
	t.Parallel()
	m := DefaultModel(modelspec.ClassLLM)
	m.ColdStart, m.Warmup = 5*time.Second, 1718*time.Second
	got, err := Against(recorded(t, code, 1), m, reference(), bundle(modelspec.ClassLLM, modelspec.WorkloadOnline, m, 1))
	if err != nil || got.SameHours == nil || got.Avoided < 0.4 || got.SameHours.GPUHours > 1.3 {
		t.Errorf("%.0f %% avoided, %+v, %v", 100*got.Avoided, got.SameHours, err)
	}
}

// TestNoFlapping: no bundle turns more than once per down window, on any trace
// and for any start-up time.
func TestNoFlapping(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{
		code: 1, "AzureLLMInferenceTrace_conv.csv": 1, "mooncake_conversation_compact.csv": 1,
		"servegen_language_m-large_client73_sporadic.csv": 0.002, "servegen_language_m-large_total_rate_10min.csv": 0.0005,
	} {
		trace := until(recorded(t, name, share), 2*24*time.Hour)
		for _, lead := range []time.Duration{3 * time.Second, 20 * time.Second, time.Minute} {
			for _, w := range []modelspec.Workload{modelspec.WorkloadOnline, modelspec.WorkloadBatch} {
				m := DefaultModel(modelspec.ClassLLM)
				m.ColdStart = lead
				r, err := Run(trace, m, bundle(modelspec.ClassLLM, w, m, 0)(0))
				t.Logf("%s, %s at %s: %d changes of direction, %.2f per down window, most %d", name, w, lead, r.DirectionChanges, r.PerDownWindow, r.Closest)
				windows := math.Ceil(float64(r.DirectionChanges) / max(r.PerDownWindow, 1e-9)) // the last need not be whole
				if err != nil || float64(r.DirectionChanges) > windows {
					t.Errorf("that is more than one, %v", err)
				}
			}
		}
	}
}

// TestBundlesDiffer: each class and workload does something else with the very
// same load, and batch costs less and is later than online.
func TestBundlesDiffer(t *testing.T) {
	t.Parallel()
	trace := recorded(t, "AzureLLMInferenceTrace_conv.csv", 1)
	hours := map[float64]string{}
	for _, class := range []modelspec.Class{modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender} {
		m := DefaultModel(modelspec.ClassLLM)          // the same service for all
		m.Concurrency = elastic.Concurrency(class) / 4 // or one replica is enough for the last
		wide := func(w modelspec.Workload) Policy {
			p := bundle(class, w, m, 0)(0)
			p.Spec.Max = 64
			return p
		}
		online, err1 := Run(trace, m, wide(modelspec.WorkloadOnline))
		batch, err2 := Run(trace, m, wide(modelspec.WorkloadBatch))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if batch.GPUHours >= online.GPUHours || batch.Late <= online.Late {
			t.Errorf("%s: online %.2f h, %d late; batch %.2f h, %d late", class, online.GPUHours, online.Late, batch.GPUHours, batch.Late)
		}
		hours[online.GPUHours], hours[batch.GPUHours] = string(class), string(class)
	}
	if len(hours) != 6 {
		t.Errorf("the six bundles came to %d figures: %v", len(hours), hours)
	}
}

// TestClairvoyant: who knows the future pays less for the same, and buys no
// request that is too dear.
func TestClairvoyant(t *testing.T) {
	t.Parallel()
	trace, m := recorded(t, code, 1), DefaultModel(modelspec.ClassLLM)
	m.ColdStart = 10 * time.Second
	causal, err := Run(trace, m, bundle(modelspec.ClassLLM, modelspec.WorkloadOnline, m, 2)(0))
	if err != nil {
		t.Fatal(err)
	}
	dear, err := Run(trace, m, Clairvoyant(trace, m, time.Minute))
	if err != nil || dear.GPUHours >= causal.GPUHours || dear.Late >= causal.Late || dear.Late > len(trace)/100 {
		t.Errorf("all: %.2f h, %d late, %v; without knowledge %.2f h, %d late", dear.GPUHours, dear.Late, err, causal.GPUHours, causal.Late)
	}
	cheap, err := Run(trace, m, Clairvoyant(trace, m, 500*time.Millisecond))
	if err != nil || cheap.GPUHours >= dear.GPUHours || cheap.Late <= dear.Late {
		t.Errorf("cheap: %.2f h, %d late, %v", cheap.GPUHours, cheap.Late, err)
	}
}

// TestWarmup: what is before the end of the warm-up is seen and not counted.
func TestWarmup(t *testing.T) {
	t.Parallel()
	trace, m := recorded(t, code, 1), DefaultModel(modelspec.ClassLLM)
	all, err1 := Run(trace, m, reference())
	m.Warmup = 30 * time.Minute
	rest, err2 := Run(trace, m, reference())
	if err1 != nil || err2 != nil || len(rest.firsts) >= len(all.firsts) || rest.GPUHours >= 0.6*all.GPUHours {
		t.Errorf("%d and %d requests, %.2f and %.2f h, %v, %v", len(all.firsts), len(rest.firsts), all.GPUHours, rest.GPUHours, err1, err2)
	}
	m.Warmup = time.Hour
	if _, err := Run(trace, m, reference()); err == nil {
		t.Error("nothing follows the warm-up, and that was no error")
	}
}

// TestSVG: the drawing is well-formed and has a panel for each policy.
func TestSVG(t *testing.T) {
	t.Parallel()
	trace := recorded(t, code, 0.1)
	r, err := Run(trace, DefaultModel(modelspec.ClassLLM), reference())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := SVG(&out, "a<b", trace, []Result{r, r}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			texts = append(texts, string(s))
		}
	}
	if !slices.Contains(texts, "a<b: requests per second") || !slices.Contains(texts, "reference-hpa: replicas") {
		t.Errorf("texts %q", texts)
	}
}
