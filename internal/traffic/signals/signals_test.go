package signals

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want route.Signal
		ok   bool
	}{
		"vLLM": {"# HELP vllm:num_requests_waiting Waiting.\n# TYPE vllm:num_requests_waiting gauge\n" +
			`vllm:num_requests_waiting{engine="0",model_name="a } b"} 3.0` + "\n" + `vllm:num_requests_waiting{engine="1"} 2 1700000000` + "\n" +
			`vllm:num_requests_running{engine="0"} 1.2e1` + "\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n",
			route.Signal{Waiting: route.Known(5), Running: route.Known(12), KVUsage: route.Known(0.75)}, true},
		"SGLang":                           {"sglang:num_queue_reqs{x=\"y\"} 4\r\nsglang:num_running_reqs 7\nsglang:token_usage 0.5", route.Signal{Waiting: route.Known(4), Running: route.Known(7), KVUsage: route.Known(0.5)}, true},
		"llama.cpp":                        {"llamacpp:requests_deferred 1\nllamacpp:requests_processing 2\nllamacpp:kv_cache_usage_ratio 1.7\n", route.Signal{Waiting: route.Known(1), Running: route.Known(2), KVUsage: route.Known(1)}, true},
		"Triton":                           {"nv_inference_pending_request_count{model=\"a\",version=\"1\"} 2\nnv_inference_pending_request_count{model=\"b\"} 3\n", route.Signal{Waiting: route.Known(5)}, true},
		"TGI":                              {"tgi_queue_size 6\ntgi_batch_current_size 4\n", route.Signal{Waiting: route.Known(6), Running: route.Known(4)}, true},
		"TRT-LLM":                          {"trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_utilization 0.25\n", route.Signal{Waiting: route.Known(1), Running: route.Known(2), KVUsage: route.Known(0.25)}, true},
		"Triton's cards":                   {"nv_gpu_memory_used_bytes{gpu_uuid=\"a\"} 3\nnv_gpu_memory_used_bytes{gpu_uuid=\"b\"} 1\nnv_gpu_memory_total_bytes{gpu_uuid=\"a\"} 8\nnv_gpu_memory_total_bytes{gpu_uuid=\"b\"} 8\n", route.Signal{Memory: route.Known(0.25)}, true},
		"no zero in the place of a number": {"vllm:num_requests_waiting NaN\nvllm:num_requests_running 0\n", route.Signal{Running: route.Known(0)}, true},
		"others":                           {"go_goroutines 5\nvllm:num_requests_waiting_by_reason 9\nvllm:num_requests_waiting\n", route.Signal{}, false},
		"extremes":                         {"vllm:num_requests_waiting -5\nvllm:num_requests_running +Inf\nvllm:kv_cache_usage_perc -1", route.Signal{Waiting: route.Known(0), Running: route.Known(1 << 20), KVUsage: route.Known(0)}, true},
		"empty":                            {"", route.Signal{}, false},
	} {
		got, ok := parse([]byte(c.text))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("vllm:num_requests_waiting{a=\"}\"} 3\nsglang:token_usage 0.5\n")
	f.Add("vllm:num_requests_running{ 1e999\nllamacpp:kv_cache_usage_ratio -Inf")
	f.Fuzz(func(t *testing.T, text string) {
		s, known := parse([]byte(text))
		if s.Waiting.Value < 0 || s.Running.Value < 0 || !(s.KVUsage.Value >= 0 && s.KVUsage.Value <= 1) || !(s.Memory.Value >= 0 && s.Memory.Value <= 1) || !known && s != (route.Signal{}) {
			t.Fatalf("%+v, %t", s, known)
		}
		if again, _ := parse([]byte(text + "\nvllm:num_requests_waiting 1\n")); again.Waiting.Value != s.Waiting.Value+1 && !strings.HasSuffix(text, "\r") {
			t.Fatalf("one more waits: %g after %g", again.Waiting.Value, s.Waiting.Value)
		}
	})
}

// eventually waits for a condition with a deadline that only a failure meets.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestWatcher: what engines say reaches the table, engines without metrics are
// asked seldom, and nobody is asked any more who left.
func TestWatcher(t *testing.T) {
	t.Parallel()
	var queue, asked, mute, lured atomic.Int64
	var broken atomic.Bool
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/metrics" || len(r.Header["Authorization"]) > 0 {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "vllm:num_requests_waiting "+strings.Repeat("1", int(queue.Load()))+"\n")
	}))
	t.Cleanup(busy.Close)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { lured.Add(1) }))
	t.Cleanup(elsewhere.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mute.Add(1)
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}))
	t.Cleanup(silent.Close)

	table := route.New(time.Now)
	add := func(uid string, s *httptest.Server) {
		table.Upsert(traffic.Endpoint{UID: uid, Owner: "a", Model: "m", Version: "v1", Address: s.Listener.Addr().String()})
	}
	add("busy", busy)
	ctx, cancel := context.WithCancel(t.Context())
	w := New(Config{Table: table, Period: 40 * time.Millisecond})
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	add("silent", silent)
	queue.Store(2)
	signal := func() *route.Signal {
		for _, s := range table.Standings() {
			if s.Endpoint.UID == "busy" {
				return s.Signal
			}
		}
		return nil
	}
	eventually(t, "the engine's queue", func() bool { s := signal(); return s != nil && s.Waiting.Value == 11 && !s.KVUsage.Known })
	eventually(t, "the silent one to be given up", func() bool { return mute.Load() >= givenUpAfter })
	broken.Store(true) // one that told before is asked as often as ever
	asks := asked.Load()
	eventually(t, "questions to the broken one", func() bool { return asked.Load() > asks+3*givenUpAfter })
	eventually(t, "its word to grow old", func() bool { return signal() == nil })
	broken.Store(false)
	eventually(t, "its word again", func() bool { return signal() != nil })
	before, silentBefore := asked.Load(), mute.Load()
	eventually(t, "more questions", func() bool { return asked.Load() > before+20 })
	if n := mute.Load() - silentBefore; n > 10 || lured.Load() != 0 {
		t.Errorf("an engine without metrics was asked %d more times, its redirection followed %d times", n, lured.Load())
	}
	table.Remove("busy")
	eventually(t, "its goroutine to end", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.watched) == 1
	})
	cancel()
	<-done
}
