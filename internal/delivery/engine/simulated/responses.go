package simulated

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// inputText is the text of a response's input: a string, or items whose
// content is a string or parts.
func (r request) inputText() string {
	var items []message
	if json.Unmarshal(r.Input, &items) != nil {
		return textOf(r.Input)
	}
	var b strings.Builder
	for _, m := range items {
		b.WriteString(textOf(m.Content))
		b.WriteByte(' ')
	}
	return b.String()
}

// responseOf is the object of a response at one moment.
func responseOf(in request, id, status string, output []any) map[string]any {
	return map[string]any{
		"id": id, "object": "response", "created_at": time.Now().Unix(), "status": status, "model": in.Model,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "output": output,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "usage": nil,
	}
}

func messageItem(id, status, text string) map[string]any {
	return map[string]any{"type": "message", "id": id, "status": status, "role": "assistant", "content": []any{outputText(text)}}
}

func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func (a answer) responseUsage() map[string]any {
	return map[string]any{
		"input_tokens": a.promptTokens, "output_tokens": a.tokens, "total_tokens": a.promptTokens + a.tokens,
		"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
}

// finished is the response with all of its answer.
func (a answer) finished(in request, id, item string) map[string]any {
	status := "completed"
	if a.finish == "length" {
		status = "incomplete"
	}
	r := responseOf(in, id, status, []any{messageItem(item, status, a.text())})
	if a.finish == "length" {
		r["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	r["usage"] = a.responseUsage()
	return r
}

func (e *Engine) responses(w http.ResponseWriter, r *http.Request, in request) {
	if len(in.Input) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "input is missing")
		return
	}
	a, id, item := e.answerTo(in).cut(maxWhole), "resp_"+rand.Text(), "msg_"+rand.Text()
	if in.Stream {
		e.streamResponse(w, r, in, a, id, item)
		return
	}
	if e.generateAll(r.Context(), a) {
		reply(w, a.finished(in, id, item))
	}
}

// streamResponse writes the typed events of one message, one token each.
func (e *Engine) streamResponse(w http.ResponseWriter, r *http.Request, in request, a answer, id, item string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	number := 0
	send := func(name string, members map[string]any) bool {
		members["type"], members["sequence_number"] = name, number
		number++
		raw, err := json.Marshal(members)
		if err != nil {
			return false
		}
		_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, raw) //nolint:gosec // events are no page
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
	at := func(members map[string]any) map[string]any {
		members["item_id"], members["output_index"], members["content_index"] = item, 0, 0
		return members
	}
	send("response.created", map[string]any{"response": responseOf(in, id, "in_progress", []any{})})
	opened := messageItem(item, "in_progress", "")
	opened["content"] = []any{} // its one part follows
	send("response.output_item.added", map[string]any{"output_index": 0, "item": opened})
	send("response.content_part.added", at(map[string]any{"part": outputText("")}))
	for i := range a.tokens {
		if !e.pace(r.Context(), i) || !send("response.output_text.delta", at(map[string]any{"delta": a.token(i), "logprobs": []any{}})) {
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
	text := a.text()
	send("response.output_text.done", at(map[string]any{"text": text, "logprobs": []any{}}))
	send("response.content_part.done", at(map[string]any{"part": outputText(text)}))
	last := a.finished(in, id, item)
	status := last["status"].(string)
	send("response.output_item.done", map[string]any{"output_index": 0, "item": messageItem(item, status, text)})
	send("response."+status, map[string]any{"response": last})
}
