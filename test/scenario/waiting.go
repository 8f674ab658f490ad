package scenario

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// ManyWaitForAColdModel is the user's side of a cold start: sixty callers of a
// model that still loads wait, are let in as fast as it can take them, and are
// all answered; the engine itself never has a queue.
func ManyWaitForAColdModel(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("popular", 1, map[string]any{"model": map[string]any{
		"args": []string{"--load-time=3s", "--concurrency=4", "--tokens=8", "--token-time=5ms"},
	}})
	const callers = 60
	var all sync.WaitGroup
	var queued atomic.Bool
	for range callers {
		all.Go(func() {
			s := a.Chat(context.Background(), "popular", nil, nil)
			if s.Status != 200 || !s.Done || s.Chunks != 8 {
				t.Errorf("a caller who waited: %+v", s)
			}
		})
	}
	a.Ready("popular")
	address := a.Endpoint("popular")
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
			// Between a caller's leaving and the engine's notice of it, one
			// more per place may be there.
			queued.Store(queued.Load() || engineMetric(t, address, "vllm:num_requests_waiting") > 4)
		}
	}
	if queued.Load() {
		t.Error("the callers were not let in at the rate that the engine takes: it has a queue of its own")
	}
	if n := engineMetric(t, address, "modeldock_simulated_requests_total"); n != callers {
		t.Errorf("the engine served %v requests, %d were sent", n, callers)
	}
}

// ColdStartIsBounded has a model whose owner bounds how long its callers wait
// for it to load, and how many may: each bound refuses by its own words, and
// can be changed while it loads.
func ColdStartIsBounded(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	r := a.Submit("bounded", 1, map[string]any{"model": map[string]any{
		"args": []string{"--load-time=12s"}, "coldStart": map[string]any{"timeoutSeconds": 1, "maxWaiting": 5},
	}})
	if s := a.Chat(context.Background(), "bounded", nil, nil); s.Status != 503 || s.Code != "model_loading" || !strings.Contains(s.Err, "within 1s") {
		t.Errorf("a caller of a model that waits for a second at most: %+v", s)
	}
	a.Must(200, "PATCH", "/requests/bounded", map[string]any{"generation": r.Generation, "coldStart": map[string]any{"maxWaiting": 0}})
	var s Stream
	Eventually(t, "the closed waiting room", func() bool {
		s = a.Chat(context.Background(), "bounded", nil, nil)
		return s.Status == 429 && s.Code == "waiting_room_full"
	}, func() any { return s })
	a.Must(200, "PATCH", "/requests/bounded", map[string]any{"generation": a.Get("bounded").Generation, "coldStart": map[string]any{"timeoutSeconds": 120, "maxWaiting": 5}})
	Eventually(t, "an answer after the wait", func() bool {
		s = a.Chat(context.Background(), "bounded", nil, nil)
		return s.Status == 200 && s.Done
	}, func() any { return s })
}

// EngineDiesUnderLoad has two replicas, each of which crashes once in a while,
// and callers who never pause. Answers that were under way may break off
// visibly; whoever was not sent yet is served by the other replica or waits
// for the next, and never hears that a replica could not be reached.
func EngineDiesUnderLoad(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("frail", 1, map[string]any{"model": map[string]any{
		"replicas": map[string]any{"min": 2}, "args": []string{"--load-time=100ms", "--tokens=2", "--crash-after=60"},
	}})
	a.Until("frail", "two ready replicas", func(r Record) bool { return r.ReadyReplicas == 2 })
	var all sync.WaitGroup
	var whole, broken atomic.Int64
	for range 8 {
		all.Go(func() {
			for range 20 {
				switch s := a.Chat(context.Background(), "frail", nil, nil); {
				case s.Done && s.Err == "":
					whole.Add(1)
				case s.Code == "upstream_cut":
					broken.Add(1)
				default:
					t.Errorf("neither an answer nor a visible break: %+v", s)
				}
			}
		})
	}
	all.Wait()
	if broken.Load() == 0 || whole.Load() < 100 {
		t.Errorf("%d whole answers and %d broken ones of 160, with at least one crash", whole.Load(), broken.Load())
	}
}
