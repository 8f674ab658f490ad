package elastic_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
)

// recorded is one series as test/hpaparity wrote it; values are in thousandths.
type recorded struct {
	Name     string
	Min, Max int
	Metrics  []struct {
		Name   string
		Kind   elastic.Kind
		Target float64
	}
	Up, Down recordedRules
	Rounds   []struct {
		T    float64
		N    int
		Pods string
		V    map[string]struct {
			Total   *float64
			Replica []*float64
		}
		To int
	}
}

type recordedRules struct {
	Window   float64
	Policies []struct {
		Type   string
		Value  int
		Period float64
	}
	Select    elastic.Select
	Tolerance float64
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (r recordedRules) rules() elastic.Rules {
	to := elastic.Rules{Window: seconds(r.Window), Select: r.Select, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		to.Policies = append(to.Policies, elastic.Policy{Percent: p.Type == "Percent", Value: p.Value, Period: seconds(p.Period)})
	}
	return to
}

// TestParity: every decision equals the one that the real controller of
// Kubernetes 1.37.2 took on the same series (testdata/hpa.jsonl, written by
// test/hpaparity).
func TestParity(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/hpa.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decisions, changes := 0, 0
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var s recorded
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		n, c := s.replay(t)
		decisions, changes = decisions+n, changes+c
	}
	if decisions < 2000 || changes < 100 {
		t.Errorf("only %d decisions with %d changes were compared", decisions, changes)
	}
}

func (s recorded) replay(t *testing.T) (decisions, changes int) {
	spec := elastic.Spec{Min: s.Min, Max: s.Max, Behavior: elastic.Behavior{Up: s.Up.rules(), Down: s.Down.rules()}}
	for _, m := range s.Metrics {
		spec.Metrics = append(spec.Metrics, elastic.Metric{Name: m.Name, Kind: m.Kind, Target: m.Target / 1000})
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var history elastic.History
	for i, r := range s.Rounds {
		in := elastic.Signals{Replicas: r.N, Values: map[string]elastic.Reading{}}
		for j, p := range r.Pods {
			state := elastic.PodPending
			if p == 'r' {
				state = elastic.PodReady
			}
			in.Pods = append(in.Pods, elastic.Pod{Name: fmt.Sprint("pod-", j), State: state})
		}
		for name, v := range r.V {
			reading := elastic.Reading{Replica: map[string]float64{}}
			if v.Total != nil {
				total := *v.Total / 1000
				reading.Total = &total
			}
			for j, value := range v.Replica {
				if value != nil {
					reading.Replica[fmt.Sprint("pod-", j)] = *value / 1000
				}
			}
			in.Values[name] = reading
		}
		d := elastic.Decide(spec, in, history, elastic.Budget{}, begin.Add(seconds(r.T)))
		if d.Replicas != r.To {
			t.Errorf("%s, round %d at %v s: %d → %d (%s, %s), the controller decided %d", s.Name, i, r.T, r.N, d.Replicas, d.Reason, d.Message, r.To)
			return decisions, changes
		}
		history = d.Next
		decisions++
		if r.To != r.N {
			changes++
		}
	}
	return decisions, changes
}
