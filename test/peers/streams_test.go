//go:build peers

package peers

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"modeldock.io/test/onemachine"
)

// TestOpenAIGoStreams: the client's helpers for streams, and what it says of
// streams that break.
func TestOpenAIGoStreams(t *testing.T) {
	t.Parallel()
	m := platform(t)
	client := goClient(m)
	t.Run("accumulator", func(t *testing.T) { goAccumulates(t, client) })
	t.Run("usage only if asked for", func(t *testing.T) { goUsage(t, client) })
	t.Run("broken", func(t *testing.T) { goBroken(t, client) })
	t.Run("request id", func(t *testing.T) { goRequestID(t, client) })
	t.Run("rate limit", func(t *testing.T) { goRateLimit(t, m) })
}

func hello(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
}

// goAccumulates: the accumulator tells when content and a tool call are
// complete.
func goAccumulates(t *testing.T, client openai.Client) {
	call := hello("tiny")
	call.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
	call.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	for what, ask := range map[string]openai.ChatCompletionNewParams{"content": hello("tiny"), "tool": call} {
		stream, acc := client.Chat.Completions.NewStreaming(t.Context(), ask), openai.ChatCompletionAccumulator{}
		content, tool := "", ""
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Errorf("%s: a chunk does not belong to the stream: %+v", what, stream.Current())
			}
			if text, finished := acc.JustFinishedContent(); finished {
				content = text
			}
			if made, finished := acc.JustFinishedToolCall(); finished {
				tool = made.Name
			}
		}
		if err := stream.Err(); err != nil || (what == "content") != (content != "") || (what == "tool") != (tool == "weather") {
			t.Errorf("%s: %v, content %q, tool %q", what, err, content, tool)
		}
	}
}

func goUsage(t *testing.T, client openai.Client) {
	for _, wanted := range []bool{true, false} {
		ask := hello("tiny")
		ask.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(wanted)}
		stream, acc := client.Chat.Completions.NewStreaming(t.Context(), ask), openai.ChatCompletionAccumulator{}
		for stream.Next() {
			acc.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil || (acc.Usage.CompletionTokens > 0) != wanted {
			t.Errorf("include_usage=%t: %v %+v", wanted, err, acc.Usage)
		}
	}
}

// goBroken: what was cut, or failed in the middle, is an error after what came.
func goBroken(t *testing.T, client openai.Client) {
	for model, words := range map[string]string{"cuts": "stopped before its answer was complete", "fails": "simulated failure in the middle"} {
		stream, text := client.Chat.Completions.NewStreaming(t.Context(), hello(model)), ""
		for stream.Next() {
			if c := stream.Current().Choices; len(c) > 0 {
				text += c[0].Delta.Content
			}
		}
		if err := stream.Err(); err == nil || !strings.Contains(err.Error(), words) || text == "" {
			t.Errorf("%s: %q, then %v", model, text, err)
		}
	}
}

func goRequestID(t *testing.T, client openai.Client) {
	var raw *http.Response
	if _, err := client.Chat.Completions.New(t.Context(), hello("tiny"), option.WithResponseInto(&raw)); err != nil || !strings.HasPrefix(raw.Header.Get("X-Request-Id"), "req_") {
		t.Errorf("%v %+v", err, raw)
	}
	_, err := client.Chat.Completions.New(t.Context(), hello("nothing"))
	var e *openai.Error
	if !errors.As(err, &e) || e.Code != "model_not_found" || e.Param != "model" || e.Type == "" || !strings.HasPrefix(e.Response.Header.Get("X-Request-Id"), "req_") {
		t.Errorf("%v", err)
	}
}

// goRateLimit: a caller without retries gets the limit as an error of its own.
func goRateLimit(t *testing.T, m *onemachine.Machine) {
	setLimits(t, m, `{"requestsPerMinute":2}`)
	defer setLimits(t, m, `{}`)
	client := goClient(m)
	for range 100 {
		_, err := client.Chat.Completions.New(t.Context(), hello("tiny"))
		var e *openai.Error
		if err == nil {
			continue // the limit reaches the gateway in a moment
		}
		if !errors.As(err, &e) || e.StatusCode != http.StatusTooManyRequests || e.Code != "rate_limit_exceeded" || e.Response.Header.Get("Retry-After") == "" {
			t.Errorf("%v", err)
		}
		return
	}
	t.Error("no call met the limit")
}
