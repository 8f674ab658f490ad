package simulated

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"strings"
	"time"
)

// request is what the three inference calls have in common; what is not
// listed is accepted and ignored.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Input               json.RawMessage `json:"input"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	Tools           []tool          `json:"tools"`
	ToolChoice      json.RawMessage `json:"tool_choice"`
	Query           string          `json:"query"`
	Documents       []string        `json:"documents"`
	TopN            int             `json:"top_n"`

	sound  []byte // of a transcription
	format string // of its answer

	Dimensions     int    `json:"dimensions"`
	EncodingFormat string `json:"encoding_format"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or parts
}

func (r request) promptText() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(textOf(m.Content))
		b.WriteByte(' ')
	}
	b.WriteString(textOf(r.Prompt))
	b.WriteString(r.inputText())
	return b.String()
}

// textOf reads a string, a list of strings or a list of text parts.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return strings.Join(list, " ")
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts)
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// answer is what will be generated, known before it is paced out.
type answer struct {
	tokens       []string
	finish       string // stop, or length where the request's limit cut it
	promptTokens int
}

func (e *Engine) answerTo(r request) answer {
	prompt := r.promptText()
	a := answer{finish: "stop", promptTokens: max(1, len(strings.Fields(prompt)))}
	n := e.opts.Tokens
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens, r.MaxOutputTokens} {
		if limit != nil && *limit >= 1 && *limit < n {
			n, a.finish = *limit, "length"
		}
	}
	a.tokens = wordsFor(prompt, n)
	return a
}

// wordsFor is deterministic: the same prompt always gets the same answer.
func wordsFor(prompt string, n int) []string {
	words := strings.Fields("the simulated model answers with words that mean nothing but arrive one by one as real tokens would and so show how a stream behaves from the first chunk to the last")
	h := fnv.New32a()
	_, _ = h.Write([]byte(prompt))
	start := int(h.Sum32()) % len(words)
	out := make([]string, n)
	for i := range out {
		out[i] = words[(start+i)%len(words)]
		if i > 0 {
			out[i] = " " + out[i]
		}
	}
	return out
}

// pace waits for token i; false if the caller left first.
func (e *Engine) pace(ctx context.Context, i int) bool {
	d := e.opts.TokenTime
	if i == 0 {
		d = e.opts.TTFT
	}
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// generateAll paces a whole answer out in silence; false if the caller left.
func (e *Engine) generateAll(ctx context.Context, a answer) bool {
	for i := range a.tokens {
		if !e.pace(ctx, i) {
			e.metrics.cancelled.Inc()
			return false
		}
		e.metrics.generated.Inc()
	}
	e.metrics.prompted.Add(float64(a.promptTokens))
	return true
}

func (a answer) usage() map[string]any {
	return map[string]any{
		"prompt_tokens":     a.promptTokens,
		"completion_tokens": len(a.tokens),
		"total_tokens":      a.promptTokens + len(a.tokens),
	}
}
