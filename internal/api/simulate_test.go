package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/elastic/simulate"
)

// bursts is a trace of an hour with one burst every ten minutes.
func bursts() string {
	var b strings.Builder
	b.WriteString("timestamp_ms,input_length,output_length\n")
	for burst := range 6 {
		for i := range 60 {
			fmt.Fprintf(&b, "%d,200,100\n", burst*600_000+i*200)
		}
	}
	return b.String()
}

// TestSimulate: policies side by side on one trace; what they differ in shows.
func TestSimulate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := func(change map[string]any) answer {
		body := map[string]any{"trace": bursts(), "name": "bursts", "replica": map[string]any{"coldStartSeconds": 5}}
		for k, v := range change {
			body[k] = v
		}
		text, err := json.Marshal(body)
		b.ok(err)
		return b.ask(b.a, "POST", "/simulate", string(text))
	}
	r := read[openapi.Simulation](ask(nil), 200)
	if r.Trace != "bursts" || r.Requests != 360 || len(r.Policies) != 2 || r.Policies[0].Name != "reference-hpa" || r.Policies[1].Name != "model" {
		t.Fatalf("%+v", r)
	}
	if reference, own := r.Policies[0], r.Policies[1]; own.GpuHours >= reference.GpuHours || own.ColdStarts == 0 || reference.Attainment <= 0 {
		t.Errorf("a model that sleeps costs as much as two replicas that do not: %+v", r.Policies)
	}
	r = read[openapi.Simulation](ask(map[string]any{"policies": []any{
		map[string]any{"name": "two", "replicas": map[string]any{"min": 2, "max": 2}},
		map[string]any{"name": "lazy", "scaling": map[string]any{"targets": map[string]any{"queueDepth": 100, "kvCachePercent": 100}, "idleSeconds": 3600}, "replicas": map[string]any{"min": 1}},
	}}), 200)
	if two, lazy := r.Policies[0], r.Policies[1]; two.ColdStarts != 0 || two.GpuHours <= lazy.GpuHours || lazy.ColdStarts != 0 {
		t.Errorf("the owner's own policies: %+v", r.Policies)
	}
	r = read[openapi.Simulation](ask(map[string]any{"replica": map[string]any{"coldStartSeconds": 60, "wakeSeconds": 2}, "policies": []any{
		map[string]any{"name": "stopped"}, map[string]any{"name": "asleep", "scaling": map[string]any{"asleep": 4}},
	}}), 200)
	if stopped, asleep := r.Policies[0], r.Policies[1]; stopped.Wakes != nil || value(asleep.Wakes, 0) == 0 || asleep.ColdStarts == 0 || asleep.GpuHours >= stopped.GpuHours {
		t.Errorf("who sleeps is woken: %+v", r.Policies)
	}
	stop := read[openapi.Simulation](ask(map[string]any{"replica": map[string]any{"coldStartSeconds": 5, "stopSeconds": 60}}), 200)
	if quick := read[openapi.Simulation](ask(nil), 200); stop.Policies[1].GpuHours <= quick.Policies[1].GpuHours || stop.Policies[1].Late != quick.Policies[1].Late {
		t.Errorf("replicas that take a minute to end cost no more: %+v, %+v", stop.Policies[1], quick.Policies[1])
	}
	for field, change := range map[string]map[string]any{
		"trace":                         {"trace": "what"},
		"replica.promptTokensPerSecond": {"replica": map[string]any{"promptTokensPerSecond": 1e-300}},
		"replica.concurrency":           {"replica": map[string]any{"concurrency": 0}},
		"replica.coldStartSeconds":      {"replica": map[string]any{"coldStartSeconds": -1}},
		"model.class":                   {"model": map[string]any{"class": "big"}},
		"policies.base":                 {"policies": []any{map[string]any{"name": "x", "base": "mine"}}},
		"policies.replicas":             {"policies": []any{map[string]any{"name": "x", "base": "reference-hpa", "replicas": map[string]any{"min": 3, "max": 2}}}},
		"model.scaling.actuator":        {"policies": []any{map[string]any{"name": "x", "scaling": map[string]any{"actuator": "me"}}}},
		"policies":                      {"policies": make([]map[string]any, 9)},
	} {
		if list, many := change["policies"].([]map[string]any); many {
			for i := range list {
				list[i] = map[string]any{"name": "x"}
			}
		}
		if e := ask(change).fails(400, "invalid_request"); value(e.Field, "") != field {
			t.Errorf("%v: field %q, want %q (%s)", change, value(e.Field, ""), field, e.Message)
		}
	}
	for what, trace := range map[string]string{
		"too many": "timestamp_s,requests_per_s\n0,1000000\n", "too long": "timestamp_ms,input_length,output_length\n0,1,1\n9000000000,1,1\n",
		"a request without an end": "timestamp_ms,input_length,output_length\n0,1,1000000000000000\n1,1,1\n",
		"a shape that never ends":  "timestamp_s,rate_rps,cv,pattern,shape\n0,1000,1,Gamma,0.0000001\n",
	} {
		if e := ask(map[string]any{"trace": trace}).fails(400, "invalid_request"); value(e.Field, "") != "trace" {
			t.Errorf("%s: field %q (%s)", what, value(e.Field, ""), e.Message)
		}
	}
}

// A timeline is thinned without losing its peaks.
func TestTimelineKeepsItsPeaks(t *testing.T) {
	t.Parallel()
	var points []simulate.Point
	for i := range 10_000 {
		p := simulate.Point{At: time.Duration(i) * time.Second, Replicas: 1}
		if i == 7_654 {
			p = simulate.Point{At: p.At, Replicas: 9, Ready: 8, Waiting: 70}
		}
		points = append(points, p)
	}
	got := timelineWire(points)
	if len(got) == 0 || len(got) > maxPoints {
		t.Fatalf("%d points", len(got))
	}
	peaks := 0
	for i, p := range got {
		if i > 0 && p.Seconds <= got[i-1].Seconds {
			t.Fatalf("point %d is at %g s, after %g s", i, p.Seconds, got[i-1].Seconds)
		}
		if p.Replicas == 9 && p.Ready == 8 && p.Waiting == 70 {
			peaks++
		}
	}
	if peaks != 1 {
		t.Errorf("the peak is there %d times", peaks)
	}
	if short := timelineWire(points[:3]); len(short) != 3 {
		t.Errorf("a short timeline has %d points", len(short))
	}
	if none := timelineWire(nil); none == nil || len(none) != 0 {
		t.Errorf("no timeline is %v", none)
	}
}
