//go:build peers

package peers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"modeldock.io/test/onemachine"
)

func goClient(m *onemachine.Machine, more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(m.Gateway() + "/v1"), option.WithAPIKey(m.Key("team-a")), option.WithMaxRetries(0),
	}, more...)...)
}

// TestOpenAIGoEndpoints: what else the official client for Go can call.
func TestOpenAIGoEndpoints(t *testing.T) {
	t.Parallel()
	m := platform(t)
	client := goClient(m)
	t.Run("responses", func(t *testing.T) { goResponses(t, client) })
	t.Run("transcriptions", func(t *testing.T) { goTranscriptions(t, client) })
	t.Run("tools and usage", func(t *testing.T) { goTools(t, client) })
	t.Run("one model", func(t *testing.T) {
		if model, err := client.Models.Get(t.Context(), "tiny"); err != nil || model.ID != "tiny" {
			t.Errorf("%+v %v", model, err)
		}
	})
	t.Run("time-out and abort", func(t *testing.T) { goLeaves(t, client) })
	t.Run("retries", func(t *testing.T) { goRetries(t, m) })
}

func goResponses(t *testing.T, client openai.Client) {
	ask := responses.ResponseNewParams{Model: "tiny", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}
	whole, err := client.Responses.New(t.Context(), ask)
	if err != nil || whole.OutputText() == "" || whole.Usage.OutputTokens == 0 || whole.Status != responses.ResponseStatusCompleted {
		t.Fatalf("whole: %v %+v", err, whole)
	}
	stream := client.Responses.NewStreaming(t.Context(), ask)
	deltas, final := "", ""
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			deltas += e.Delta
		case responses.ResponseCompletedEvent:
			final = e.Response.OutputText()
		}
	}
	if err := stream.Err(); err != nil || deltas != whole.OutputText() || final != deltas {
		t.Errorf("stream: %v, deltas %q, at the end %q, want %q", err, deltas, final, whole.OutputText())
	}
}

func goTranscriptions(t *testing.T, client openai.Client) {
	ask := func() openai.AudioTranscriptionNewParams {
		return openai.AudioTranscriptionNewParams{Model: "tiny", File: openai.File(strings.NewReader("RIFF and some sound"), "a.wav", "audio/wav")}
	}
	whole, err := client.Audio.Transcriptions.New(t.Context(), ask())
	if err != nil || whole.Text == "" {
		t.Fatalf("whole: %v %+v", err, whole)
	}
	stream := client.Audio.Transcriptions.NewStreaming(t.Context(), ask())
	deltas := ""
	for stream.Next() {
		if e := stream.Current(); e.Type == "transcript.text.delta" {
			deltas += e.Delta
		}
	}
	if err := stream.Err(); err != nil || deltas != whole.Text {
		t.Errorf("stream: %v %q, want %q", err, deltas, whole.Text)
	}
}

func goTools(t *testing.T, client openai.Client) {
	ask := openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		Tools:         []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})},
		ToolChoice:    openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), ask)
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(acc.Choices) != 1 || len(acc.Choices[0].Message.ToolCalls) != 1 {
		t.Fatalf("%v %+v", err, acc.ChatCompletion)
	}
	call := acc.Choices[0].Message.ToolCalls[0].Function
	if call.Name != "weather" || !strings.Contains(call.Arguments, "hello") || acc.Usage.CompletionTokens == 0 || acc.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("%+v, usage %+v", call, acc.Usage)
	}
}

// goLeaves: a caller who has no patience gets the error that its context says.
func goLeaves(t *testing.T, client openai.Client) {
	ask := openai.ChatCompletionNewParams{Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
	if _, err := client.Chat.Completions.New(t.Context(), ask, option.WithRequestTimeout(time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("time-out: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := client.Chat.Completions.NewStreaming(ctx, ask)
	if !stream.Next() {
		t.Fatalf("no first chunk: %v", stream.Err())
	}
	cancel()
	for stream.Next() { // what was on its way may still be read
	}
	if err := stream.Err(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("abort: %v", err)
	}
}

// goRetries: the client obeys the Retry-After of a limit and then succeeds.
func goRetries(t *testing.T, m *onemachine.Machine) {
	setLimits(t, m, `{"requestsPerMinute":30,"windowSeconds":2}`)
	defer setLimits(t, m, `{}`)
	var limited int
	client := goClient(m, option.WithMaxRetries(5), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		answer, err := next(r)
		if err == nil && answer.StatusCode == http.StatusTooManyRequests {
			limited++
		}
		return answer, err
	}))
	ask := openai.ChatCompletionNewParams{Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
	for range 3 {
		if _, err := client.Chat.Completions.New(t.Context(), ask); err != nil {
			t.Errorf("after retries: %v", err)
		}
	}
	if limited == 0 {
		t.Error("no call met the limit")
	}
}
