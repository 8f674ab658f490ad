package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// engine is the mock that both sides forward to; headers of the request say
// how it answers.
type engine struct {
	*http.Server
	address string
	running atomic.Int64                  // requests that it answers right now
	over    atomic.Pointer[chan struct{}] // closed when all running streams are to end
}

const (
	eventsHeader = "Openai-Events" // how many events a stream has
	bunchHeader  = "Openai-Bunch"  // how many of them are written at once
	paceHeader   = "Openai-Pace"   // microseconds between two writes
)

// event is a chunk as vLLM makes it.
const event = `data: {"id":"chatcmpl-0f5c0f6f0a9e4b6d8f3a0c1d2e3f4a5b","object":"chat.completion.chunk","created":1767225600,` +
	`"model":"served-name","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

const ending = `data: {"id":"chatcmpl-0f5c0f6f0a9e4b6d8f3a0c1d2e3f4a5b","object":"chat.completion.chunk","created":1767225600,` +
	`"model":"served-name","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"

func startEngine() (*engine, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the mock engine: %w", err)
	}
	e := &engine{address: listener.Addr().String()}
	e.over.Store(new(make(chan struct{})))
	e.Server = &http.Server{Handler: http.HandlerFunc(e.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = e.Serve(listener) }()
	return e, nil
}

// idle ends all streams and waits until nothing runs any more: what one round
// has left behind must not disturb the next. Not every side tells the engine
// that its callers have left.
func (e *engine) idle(ctx context.Context) error {
	close(*e.over.Swap(new(make(chan struct{}))))
	for e.running.Load() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d requests still run on the mock engine: %w", e.running.Load(), context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (e *engine) answer(w http.ResponseWriter, r *http.Request) {
	e.running.Add(1)
	defer e.running.Add(-1)
	over := *e.over.Load()
	_, _ = io.Copy(io.Discard, r.Body)
	count, _ := strconv.Atoi(r.Header.Get(eventsHeader))
	if count == 0 {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wholeAnswer)
		return
	}
	bunch, _ := strconv.Atoi(r.Header.Get(bunchHeader))
	pace, _ := strconv.Atoi(r.Header.Get(paceHeader))
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	var ticks <-chan time.Time
	if pace > 0 {
		ticker := time.NewTicker(time.Duration(pace) * time.Microsecond)
		defer ticker.Stop()
		ticks = ticker.C
	}
	text := strings.Repeat(event, bunch)
	for sent := 0; sent < count; sent += bunch {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		flush()
		if ticks == nil {
			continue
		}
		select {
		case <-ticks:
		case <-r.Context().Done():
			return
		case <-over:
			return
		}
	}
	_, _ = io.WriteString(w, ending)
}

// wholeAnswer is 1 KiB of a completion.
var wholeAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"served-name","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"` + strings.Repeat("tokens ", 112) + `"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":200,"completion_tokens":112,"total_tokens":312}}`
