package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"modeldock.io/internal/traffic"
)

func (b *bench) sdk(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(b.url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func sdkChat(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
	}
}

// TestOfficialClient: an unmodified OpenAI client works.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}`)
		case strings.Contains(string(body), `"stream":true`):
			events(roleEvent, chunkEvent("hel"), chunkEvent("lo"), stopEvent, usageEvent, doneEvent)(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, wholeChat)
		}
	})
	client := b.sdk(keyA)
	whole, err := client.Chat.Completions.New(t.Context(), sdkChat("m1"))
	if err != nil || whole.Choices[0].Message.Content != "hello" || whole.Usage.TotalTokens != 10 {
		t.Errorf("whole answer %+v, %v", whole, err)
	}
	for _, asks := range []bool{false, true} {
		params := sdkChat("m1@v1")
		if asks {
			params.StreamOptions.IncludeUsage = openai.Bool(true)
		}
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		text, tokens := "", int64(0)
		for stream.Next() {
			chunk := stream.Current()
			tokens += chunk.Usage.TotalTokens
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Delta.Content
			}
		}
		if err := stream.Err(); err != nil || text != "hello" || (tokens == 10) != asks {
			t.Errorf("stream %q, %d tokens, %v", text, tokens, err)
		}
	}
	vectors, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "m1", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")},
	})
	if err != nil || len(vectors.Data) != 1 {
		t.Errorf("embeddings %+v, %v", vectors, err)
	}
	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "m1" {
		t.Errorf("models %+v, %v", models, err)
	}
	for _, id := range []string{"m1", "team-a/m1@v1"} {
		if one, err := client.Models.Get(t.Context(), id); err != nil || one.ID != id || one.OwnedBy != "team-a" {
			t.Errorf("model %+v, %v", one, err)
		}
	}
}

// TestOfficialClientUnderstandsErrors: status, code, type and message arrive.
func TestOfficialClientUnderstandsErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(func(s *traffic.Snapshot) { s.Models[0].WaitTimeout = time.Millisecond })
	empty := sdkChat("m1")
	empty.Messages = []openai.ChatCompletionMessageParamUnion{}
	for _, c := range []struct {
		key    string
		params openai.ChatCompletionNewParams
		status int
		code   string
	}{
		{keyA, empty, 400, "empty_messages"},
		{"mdk_x_y", sdkChat("m1"), 401, "invalid_api_key"},
		{keyA, sdkChat("nothing"), 404, "model_not_found"},
		{keyA, sdkChat("m1"), 503, "model_loading"},
	} {
		client := b.sdk(c.key)
		_, err := client.Chat.Completions.New(t.Context(), c.params)
		var known *openai.Error
		if !errors.As(err, &known) || known.StatusCode != c.status || known.Code != c.code || known.Message == "" || known.Type == "" {
			t.Errorf("want %d %s, got %v", c.status, c.code, err)
		}
	}
}

// TestOfficialClientSeesBrokenStreams as errors, not as short answers.
func TestOfficialClientSeesBrokenStreams(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{
		"CUDA out of memory": `data: {"error":{"message":"CUDA out of memory","type":"server_error","code":"oom"}}` + "\n\n",
		"boom":               `data: {"message":"boom","code":500}` + "\n\n",
		"stopped before":     "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.engine("team-a", "m1", "v1", events(chunkEvent("a"), chunkEvent("b"), tail))
			client := b.sdk(keyA)
			stream := client.Chat.Completions.NewStreaming(t.Context(), sdkChat("m1"))
			text := ""
			for stream.Next() {
				text += stream.Current().Choices[0].Delta.Content
			}
			if err := stream.Err(); text != "ab" || err == nil || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("text %q, error %v", text, err)
			}
		})
	}
}
