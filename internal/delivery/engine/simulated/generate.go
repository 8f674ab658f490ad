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

// maxWhole is how many tokens an answer may have that is sent, or repeated, in
// one piece: it has to be in memory, a stream of tokens has not.
const maxWhole = 100_000

// answer is what will be generated, known before it is paced out. It is never
// kept as text, however long it is.
type answer struct {
	tokens       int
	start        int    // first word
	finish       string // stop, or length where a limit cut it
	promptTokens int
}

func (e *Engine) answerTo(r request) answer {
	prompt := r.promptText()
	h := fnv.New32a()
	_, _ = h.Write([]byte(prompt))
	a := answer{tokens: e.opts.Tokens, start: int(h.Sum32()) % len(words), finish: "stop", promptTokens: max(1, len(strings.Fields(prompt)))}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens, r.MaxOutputTokens} {
		if limit != nil && *limit >= 1 {
			a = a.cut(*limit)
		}
	}
	return a
}

// cut returns the answer with most tokens at most.
func (a answer) cut(most int) answer {
	if most < a.tokens {
		a.tokens, a.finish = most, "length"
	}
	return a
}

var words = strings.Fields("the simulated model answers with words that mean nothing but arrive one by one as real tokens would and so show how a stream behaves from the first chunk to the last")

// token is deterministic: the same prompt always gets the same answer.
func (a answer) token(i int) string {
	word := words[(a.start+i%len(words))%len(words)]
	if i > 0 {
		return " " + word
	}
	return word
}

// text is the whole answer, of which maxWhole bounds the length.
func (a answer) text() string {
	var b strings.Builder
	for i := range a.tokens {
		b.WriteString(a.token(i))
	}
	return b.String()
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
		"completion_tokens": a.tokens,
		"total_tokens":      a.promptTokens + a.tokens,
	}
}
