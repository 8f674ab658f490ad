//go:build peers

// Package peers runs clients that nobody here wrote against `modeldock up`:
// the official OpenAI libraries, unmodified.
package peers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// platform has a model that answers, one that can never load, and two whose
// streams break: one is cut and one reports a failure.
func platform(t *testing.T) *onemachine.Machine {
	t.Helper()
	m := onemachine.New(t)
	a := scenario.As(t, m, "team-a")
	scenario.As(t, m, "admin").Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 4})
	a.Submit("cuts", 1, map[string]any{"model": map[string]any{"args": []string{"--cut-after=3"}}})
	a.Submit("fails", 1, map[string]any{"model": map[string]any{"args": []string{"--error-after=3"}}})
	a.Submit("tiny", 1, nil)
	a.Submit("broken", 1, map[string]any{"model": map[string]any{"args": []string{"--fail-load=no weights"}}})
	for _, id := range []string{"tiny", "cuts", "fails"} {
		a.Ready(id)
	}
	a.Until("broken", "its failure", func(r scenario.Record) bool { return r.Reason == "ModelLoadFailed" || r.Reason == "CrashLooping" })
	return m
}

func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	m := platform(t)
	client := openai.NewClient(option.WithBaseURL(m.Gateway()+"/v1"), option.WithAPIKey(m.Key("team-a")), option.WithMaxRetries(0))
	ctx := t.Context()
	ask := func(model string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
	}
	models, err := client.Models.List(ctx)
	if err != nil || len(models.Data) == 0 {
		t.Fatalf("list models: %v, %+v", err, models)
	}
	whole, err := client.Chat.Completions.New(ctx, ask("tiny"))
	if err != nil || whole.Choices[0].Message.Content == "" || whole.Usage.TotalTokens == 0 {
		t.Fatalf("whole answer: %v, %+v", err, whole)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, ask("tiny"))
	acc := openai.ChatCompletionAccumulator{}
	chunks := 0
	for stream.Next() {
		chunks++
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || chunks < 3 || acc.Choices[0].Message.Content == "" {
		t.Fatalf("stream: %v, %d chunks, %+v", err, chunks, acc)
	}
	if acc.Choices[0].Message.Content != whole.Choices[0].Message.Content {
		t.Errorf("streamed %q, whole %q", acc.Choices[0].Message.Content, whole.Choices[0].Message.Content)
	}
	emb, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "tiny", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hello")}})
	if err != nil || len(emb.Data) != 1 || len(emb.Data[0].Embedding) == 0 {
		t.Errorf("embedding: %v, %+v", err, emb)
	}
	empty := ask("tiny")
	empty.Messages = nil
	_, bad := client.Chat.Completions.New(ctx, empty)
	_, unknown := client.Chat.Completions.New(ctx, ask("nothing"))
	_, loading := client.Chat.Completions.New(ctx, ask("broken"))
	stranger := openai.NewClient(option.WithBaseURL(m.Gateway()+"/v1"), option.WithAPIKey("mdk_nobody_nothingnothingnothing"), option.WithMaxRetries(0))
	_, refused := stranger.Chat.Completions.New(ctx, ask("tiny"))
	for what, c := range map[string]struct {
		err    error
		status int
	}{"no messages": {bad, 400}, "wrong key": {refused, 401}, "unknown model": {unknown, 404}, "cannot load": {loading, 503}} {
		var e *openai.Error
		if !errors.As(c.err, &e) || e.StatusCode != c.status || e.Message == "" {
			t.Errorf("%s: %v, want an *openai.Error with status %d and a message", what, c.err, c.status)
		}
	}
}

func TestOpenAINode(t *testing.T) {
	t.Parallel()
	m := platform(t)
	cmd := exec.CommandContext(context.Background(), "node", "--test", "--test-reporter=tap", "openai.test.mjs")
	cmd.Dir = "node"
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+m.Gateway()+"/v1", "OPENAI_API_KEY="+m.Key("team-a"),
		"MODELDOCK_LIMITS_URL="+m.API()+"/tenants/team-a/limits", "MODELDOCK_ADMIN_KEY="+m.Key("admin"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "# fail 0") || strings.Contains(string(out), "# pass 0") {
		t.Fatalf("openai for Node: %v (install its packages with npm ci in test/peers/node)\n%s", err, out)
	}
	_, counts, _ := strings.Cut(string(out), "# tests ")
	t.Logf("tests of openai for Node: %s", strings.Fields(counts)[0])
}

func setLimits(t *testing.T, m *onemachine.Machine, body string) {
	t.Helper()
	scenario.As(t, m, "admin").Must(200, "PUT", "/tenants/team-a/limits", body)
}
