package simulated

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// shape tells the chat and the plain completion API apart.
type shape struct {
	prefix string // of the id
	object string
	chunk  string // object of a stream's chunks
	full   func(text, finish string) map[string]any
	first  map[string]any // the opening choice of a stream, nil for none
	delta  func(text string) map[string]any
	last   func(finish string) map[string]any
}

func chatShape() shape {
	choice := func(delta map[string]any, finish any) map[string]any {
		return map[string]any{"index": 0, "delta": delta, "finish_reason": finish}
	}
	return shape{
		prefix: "chatcmpl-", object: "chat.completion", chunk: "chat.completion.chunk",
		full: func(text, finish string) map[string]any {
			return map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": text}, "finish_reason": finish}
		},
		first: choice(map[string]any{"role": "assistant", "content": ""}, nil),
		delta: func(text string) map[string]any { return choice(map[string]any{"content": text}, nil) },
		last:  func(finish string) map[string]any { return choice(map[string]any{}, finish) },
	}
}

func textShape() shape {
	choice := func(text string, finish any) map[string]any {
		return map[string]any{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish}
	}
	return shape{
		prefix: "cmpl-", object: "text_completion", chunk: "text_completion",
		full:  func(text, finish string) map[string]any { return choice(text, finish) },
		delta: func(text string) map[string]any { return choice(text, nil) },
		last:  func(finish string) map[string]any { return choice("", finish) },
	}
}

func (e *Engine) chat(w http.ResponseWriter, r *http.Request, in request) {
	if len(in.Messages) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "messages must hold at least one message")
		return
	}
	if name, wanted := in.wantsTool(); wanted {
		e.callTool(w, r, in, name)
		return
	}
	e.complete(w, r, in, chatShape())
}

func (e *Engine) completion(w http.ResponseWriter, r *http.Request, in request) {
	if len(in.Prompt) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "prompt is missing")
		return
	}
	e.complete(w, r, in, textShape())
}

func (e *Engine) complete(w http.ResponseWriter, r *http.Request, in request, s shape) {
	a := e.answerTo(in)
	head := map[string]any{"id": s.prefix + rand.Text(), "created": time.Now().Unix(), "model": in.Model}
	if in.Stream {
		e.stream(w, r, in, a, s, head)
		return
	}
	a = a.cut(maxWhole)
	if !e.generateAll(r.Context(), a) {
		return
	}
	head["object"] = s.object
	head["choices"] = []any{s.full(a.text(), a.finish)}
	head["usage"] = a.usage()
	reply(w, head)
}

// stream writes server-sent events, one token each, and looks at the caller
// before every one: whoever left is not generated for.
func (e *Engine) stream(w http.ResponseWriter, r *http.Request, in request, a answer, s shape, head map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	head["object"] = s.chunk
	send := func(choices []any, usage any) bool {
		head["choices"] = choices
		if in.StreamOptions.IncludeUsage {
			head["usage"] = usage
		}
		return sendEvent(w, head)
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for i := range a.tokens {
		if !e.pace(r.Context(), i) || (i == 0 && s.first != nil && !send([]any{s.first}, nil)) || !send([]any{s.delta(a.token(i))}, nil) {
			e.metrics.cancelled.Inc()
			return
		}
		e.metrics.generated.Inc()
		e.failMidStream(w, i+1)
		if e.opts.ErrorAfter > 0 && i+1 >= e.opts.ErrorAfter {
			return
		}
	}
	e.metrics.prompted.Add(float64(a.promptTokens))
	if send([]any{s.last(a.finish)}, nil) {
		e.endStream(w, in, a, head)
	}
}

// failMidStream cuts the connection or sends the error that it was told to.
func (e *Engine) failMidStream(w http.ResponseWriter, sent int) {
	if e.opts.CutAfter > 0 && sent >= e.opts.CutAfter {
		panic(http.ErrAbortHandler) // closes the connection without an end
	}
	if e.opts.ErrorAfter > 0 && sent >= e.opts.ErrorAfter {
		sendEvent(w, errorBody(http.StatusInternalServerError, "InternalServerError", "simulated failure in the middle of the stream"))
	}
}

func sendEvent(w http.ResponseWriter, body any) bool {
	raw, err := json.Marshal(body)
	if err != nil {
		return false
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", raw); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}
