package simulated

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// readForm reads the form of a transcription.
func readForm(r *http.Request) (request, error) {
	if err := r.ParseMultipartForm(maxBody); err != nil { //nolint:gosec // readRequest has bounded the body
		return request{}, fmt.Errorf("the body is not a form: %w", err)
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	in := request{Model: r.FormValue("model"), Stream: r.FormValue("stream") == "true", format: r.FormValue("response_format")}
	file, _, err := r.FormFile("file")
	if err != nil {
		return in, fmt.Errorf("the form has no file: %w", err)
	}
	if in.sound, err = io.ReadAll(file); err != nil {
		return in, fmt.Errorf("read the file: %w", err)
	}
	// The answer depends on the sound alone, as that to a prompt on its text.
	in.Prompt, err = json.Marshal(fmt.Sprintf("%x", in.sound[:min(len(in.sound), 64)]))
	return in, err
}

// transcription answers with words that depend on the sound, however it
// sounds.
func (e *Engine) transcription(w http.ResponseWriter, r *http.Request, in request) {
	if len(in.sound) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "file must hold sound")
		return
	}
	a := e.answerTo(in).cut(maxWhole)
	text := a.text()
	usage := map[string]any{
		"type": "tokens", "input_tokens": a.promptTokens, "output_tokens": a.tokens, "total_tokens": a.promptTokens + a.tokens,
	}
	if in.Stream {
		e.streamTranscript(w, r, a, map[string]any{"type": "transcript.text.done", "text": text, "usage": usage})
		return
	}
	if !e.generateAll(r.Context(), a) {
		return
	}
	if in.format == "text" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text+"\n") //nolint:gosec // our own words, and no page
		return
	}
	reply(w, map[string]any{"text": text, "usage": usage})
}

func (e *Engine) streamTranscript(w http.ResponseWriter, r *http.Request, a answer, last map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i := range a.tokens {
		if !e.pace(r.Context(), i) || !sendEvent(w, map[string]any{"type": "transcript.text.delta", "delta": a.token(i)}) {
			e.metrics.cancelled.Inc()
			return
		}
		e.metrics.generated.Inc()
		e.failMidStream(w, i+1)
	}
	e.metrics.prompted.Add(float64(a.promptTokens))
	if sendEvent(w, last) {
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
}
