package simulated

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"
)

// tool is a function that the model may call.
type tool struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// wantsTool tells which function the answer has to call: one that tool_choice
// names, or the first where it says "required". A model that may choose never
// calls any.
func (r request) wantsTool() (name string, wanted bool) {
	if len(r.Tools) == 0 {
		return "", false
	}
	if bytes.Equal(r.ToolChoice, []byte(`"required"`)) {
		return r.Tools[0].Function.Name, true
	}
	var named tool
	if json.Unmarshal(r.ToolChoice, &named) == nil && named.Function.Name != "" {
		return named.Function.Name, true
	}
	return "", false
}

// callTool answers with a call whose argument is the prompt, in two pieces
// where a stream is asked for.
func (e *Engine) callTool(w http.ResponseWriter, r *http.Request, in request, name string) {
	arguments, err := json.Marshal(map[string]string{"text": in.promptText()})
	if err != nil {
		fail(w, http.StatusInternalServerError, "InternalServerError", err.Error())
		return
	}
	a := e.answerTo(in)
	head := map[string]any{"id": "chatcmpl-" + rand.Text(), "created": time.Now().Unix(), "model": in.Model, "object": "chat.completion"}
	call := func(arguments string) map[string]any {
		return map[string]any{"index": 0, "id": "call_1", "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
	}
	choice := func(member string, said, finish any) []any {
		return []any{map[string]any{"index": 0, member: said, "finish_reason": finish}}
	}
	if !e.generateAll(r.Context(), a) {
		return
	}
	if !in.Stream {
		head["choices"] = choice("message", map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call(string(arguments))}}, "tool_calls")
		head["usage"] = a.usage()
		reply(w, head)
		return
	}
	head["object"] = "chat.completion.chunk"
	w.Header().Set("Content-Type", "text/event-stream")
	half := len(arguments) / 2
	rest := map[string]any{"index": 0, "function": map[string]any{"arguments": string(arguments[half:])}}
	for _, choices := range [][]any{
		choice("delta", map[string]any{"role": "assistant", "tool_calls": []any{call(string(arguments[:half]))}}, nil),
		choice("delta", map[string]any{"tool_calls": []any{rest}}, nil),
		choice("delta", map[string]any{}, "tool_calls"),
	} {
		head["choices"] = choices
		if !sendEvent(w, head) {
			return
		}
	}
	e.endStream(w, in, a, head)
}

// endStream sends the usage, if it is asked for, and the end.
func (e *Engine) endStream(w http.ResponseWriter, in request, a answer, head map[string]any) {
	if in.StreamOptions.IncludeUsage {
		head["choices"], head["usage"] = []any{}, a.usage()
		if !sendEvent(w, head) {
			return
		}
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}
