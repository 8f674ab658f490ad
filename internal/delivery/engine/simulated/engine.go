package simulated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const maxBody = 32 << 20

// Engine answers like a model server. It is safe for concurrent use.
type Engine struct {
	opts     Options
	metrics  *metrics
	slots    chan struct{}
	loadedAt atomic.Int64 // unix nanoseconds; 0 while loading
	accepted atomic.Int64
	nap      nap
	exit     func(code int) // what a crash does
}

// NewEngine returns an engine that is still loading.
func NewEngine(opts Options) *Engine {
	return &Engine{
		opts:    opts,
		metrics: newMetrics(opts),
		slots:   make(chan struct{}, opts.Concurrency),
		exit:    func(int) {},
	}
}

// Loaded ends the loading; from now on requests are answered.
func (e *Engine) Loaded(now time.Time) { e.loadedAt.Store(now.UnixNano()) }

// Handler serves the engine's API.
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", e.health)
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("POST /v1/chat/completions", e.inference(e.chat))
	mux.HandleFunc("POST /v1/completions", e.inference(e.completion))
	mux.HandleFunc("POST /v1/embeddings", e.inference(e.embeddings))
	mux.HandleFunc("POST /v1/responses", e.inference(e.responses))
	mux.HandleFunc("POST /v1/rerank", e.inference(e.rerank))
	mux.HandleFunc("POST /v1/audio/transcriptions", e.inference(e.transcription))
	mux.Handle("GET /metrics", e.metrics.handler())
	mux.HandleFunc("PUT /simulated/metrics", e.metrics.silence)
	e.handleSleep(mux)
	return e.hanging(mux)
}

// hanging swallows every request once the time to hang has come; the caller
// gets nothing until it gives up.
func (e *Engine) hanging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := e.loadedAt.Load()
		if e.opts.HangAfter > 0 && at > 0 && time.Since(time.Unix(0, at)) >= e.opts.HangAfter {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *Engine) health(w http.ResponseWriter, _ *http.Request) {
	if e.loadedAt.Load() == 0 {
		fail(w, http.StatusServiceUnavailable, "loading", "the model is loading")
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	if e.loadedAt.Load() == 0 {
		fail(w, http.StatusServiceUnavailable, "loading", "the model is loading")
		return
	}
	reply(w, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": e.opts.Model, "object": "model", "owned_by": OwnedBy,
		"created": time.Unix(0, e.loadedAt.Load()).Unix(), "root": e.opts.Model,
	}}})
}

// inference guards a generating handler: loaded, the served model asked for,
// a slot free; and it crashes where it was told to.
func (e *Engine) inference(serve func(http.ResponseWriter, *http.Request, request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if e.loadedAt.Load() == 0 {
			fail(w, http.StatusServiceUnavailable, "loading", "the model is loading")
			return
		}
		if e.Asleep() {
			fail(w, http.StatusServiceUnavailable, "asleep", "the simulated engine sleeps; POST /wake_up wakes it")
			return
		}
		in, err := readRequest(w, r)
		if err != nil {
			fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
			return
		}
		if in.Model != e.opts.Model {
			fail(w, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist; this engine serves `%s`.", in.Model, e.opts.Model))
			return
		}
		release, ok := e.takeSlot(r)
		if !ok {
			return
		}
		defer release()
		if n := e.accepted.Add(1); e.opts.CrashAfter > 0 && n >= int64(e.opts.CrashAfter) {
			fmt.Fprintf(os.Stderr, "simulated engine: crash at request %d, as told by --crash-after\n", n)
			e.exit(1)
		}
		serve(w, r, in)
	}
}

// readRequest reads JSON, or the form of a transcription.
func readRequest(w http.ResponseWriter, r *http.Request) (in request, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return readForm(r)
	}
	if err = json.NewDecoder(r.Body).Decode(&in); err != nil {
		err = fmt.Errorf("the body is not the JSON of a request: %w", err)
	}
	return in, err
}

// takeSlot waits for one of the concurrent places; a caller that leaves while
// it waits is counted as cancelled.
func (e *Engine) takeSlot(r *http.Request) (release func(), ok bool) {
	e.metrics.waiting.Inc()
	defer e.metrics.waiting.Dec()
	select {
	case e.slots <- struct{}{}:
	case <-r.Context().Done():
		e.metrics.cancelled.Inc()
		return nil, false
	}
	e.metrics.enter(len(e.slots), e.opts.Concurrency)
	return func() {
		<-e.slots
		e.metrics.leave(len(e.slots), e.opts.Concurrency)
	}, true
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a caller that left needs no answer
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errorBody(status, kind, message))
}

func errorBody(status int, kind, message string) map[string]any {
	return map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": status}}
}
