package simulated

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// setup starts a loaded engine of model "tiny" with fast tokens.
func setup(t *testing.T, flags ...string) (*Engine, string) {
	t.Helper()
	opts, err := ParseOptions(append([]string{"--model=tiny", "--ttft=1ms", "--token-time=1ms", "--tokens=5"}, flags...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(opts)
	e.Loaded(time.Now())
	s := httptest.NewServer(e.Handler())
	t.Cleanup(s.Close)
	return e, s.URL
}

func client(url string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func chatParams() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "tiny",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("one two three")},
	}
}

func metric(t *testing.T, url, name string) string {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), name+"{") {
			f := strings.Fields(lines.Text())
			return f[len(f)-1]
		}
	}
	t.Fatalf("no metric %s", name)
	return ""
}

func untilMetric(t *testing.T, url, name, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := metric(t, url, name)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s and never became %s", name, got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestLoadingAnswers503(t *testing.T) {
	t.Parallel()
	opts, err := ParseOptions([]string{"--model=tiny"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(opts)
	s := httptest.NewServer(e.Handler())
	t.Cleanup(s.Close)
	for range 2 {
		for _, path := range []string{"/health", "/v1/models"} {
			res, err := http.Get(s.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if want := map[bool]int{true: 200, false: 503}[e.loadedAt.Load() > 0]; res.StatusCode != want {
				t.Errorf("%s answers %d, want %d", path, res.StatusCode, want)
			}
		}
		e.Loaded(time.Now())
	}
}

func TestOfficialClient(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	c := client(url)
	models, err := c.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "tiny" || models.Data[0].OwnedBy != OwnedBy {
		t.Fatalf("models %+v %v", models, err)
	}
	whole, err := c.Chat.Completions.New(t.Context(), chatParams())
	if err != nil {
		t.Fatal(err)
	}
	if whole.Usage.CompletionTokens != 5 || whole.Usage.PromptTokens != 3 || whole.Choices[0].FinishReason != "stop" {
		t.Fatalf("answer %+v", whole)
	}

	params := chatParams()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	params.MaxTokens = openai.Int(3)
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if stream.Err() != nil || acc.Usage.CompletionTokens != 3 || acc.Choices[0].FinishReason != "length" {
		t.Fatalf("stream %+v %v", acc.ChatCompletion, stream.Err())
	}
	if !strings.HasPrefix(whole.Choices[0].Message.Content, acc.Choices[0].Message.Content) {
		t.Fatalf("the same prompt gives %q and %q", whole.Choices[0].Message.Content, acc.Choices[0].Message.Content)
	}

	text, err := c.Completions.New(t.Context(), openai.CompletionNewParams{Model: "tiny", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hi")}})
	if err != nil || text.Choices[0].Text == "" {
		t.Fatalf("completion %+v %v", text, err)
	}
	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "tiny", Dimensions: openai.Int(16), Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b", "a"}},
	})
	if err != nil || len(vectors.Data) != 3 || len(vectors.Data[0].Embedding) != 16 {
		t.Fatalf("embeddings %+v %v", vectors, err)
	}
	same := func(a, b []float64) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if !same(vectors.Data[0].Embedding, vectors.Data[2].Embedding) || same(vectors.Data[0].Embedding, vectors.Data[1].Embedding) {
		t.Fatal("embeddings do not depend on the text alone")
	}
}

func TestWrongModelAndWrongBody(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	for body, want := range map[string]int{
		`{"model":"other","messages":[{"role":"user","content":"x"}]}`: 404,
		`{"model":"tiny","messages":[]}`:                               400,
		`nonsense`:                                                     400,
	} {
		res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Error struct{ Message string } }
		err = json.NewDecoder(res.Body).Decode(&e)
		_ = res.Body.Close()
		if res.StatusCode != want || err != nil || e.Error.Message == "" {
			t.Errorf("%s answers %d %+v %v, want %d", body, res.StatusCode, e, err, want)
		}
	}
}

// C099 seen from the engine: whoever leaves is not generated for, whether it
// was streaming or still waiting, and its place is free again.
func TestCallerWhoLeavesFreesThePlace(t *testing.T) {
	t.Parallel()
	_, url := setup(t, "--tokens=1000000", "--concurrency=1")
	ctx, leave := context.WithCancel(t.Context())
	c := client(url)
	stream := c.Chat.Completions.NewStreaming(ctx, chatParams())
	for range 3 {
		if !stream.Next() {
			t.Fatal(stream.Err())
		}
	}
	waiting, giveUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); c.Chat.Completions.NewStreaming(waiting, chatParams()).Next() }()
	untilMetric(t, url, "vllm:num_requests_waiting", "1")
	if full := metric(t, url, "vllm:gpu_cache_usage_perc"); full != "1" {
		t.Errorf("the only place is taken, but usage is %s", full)
	}
	giveUp()
	<-gone
	untilMetric(t, url, "modeldock_simulated_cancelled_total", "1")
	leave()
	untilMetric(t, url, "modeldock_simulated_cancelled_total", "2")
	untilMetric(t, url, "vllm:num_requests_running", "0")
	_ = stream.Close()
}

func TestFailuresInTheMiddleOfAStream(t *testing.T) {
	t.Parallel()
	for flag, check := range map[string]func(body string, err error) bool{
		"--cut-after=2":   func(body string, err error) bool { return err != nil && strings.Count(body, `"content":"`) == 3 },
		"--error-after=2": func(body string, err error) bool { return err == nil && strings.Contains(body, `"error"`) },
	} {
		_, url := setup(t, flag)
		res, err := http.Post(url+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"tiny","stream":true,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if !check(string(raw), err) || strings.Contains(string(raw), "[DONE]") {
			t.Errorf("%s: %q %v", flag, raw, err)
		}
	}
}

func TestCrashAndHang(t *testing.T) {
	t.Parallel()
	e, url := setup(t, "--crash-after=2")
	crashed := make(chan int, 1)
	e.exit = func(code int) { crashed <- code; panic(http.ErrAbortHandler) }
	c := client(url)
	if _, err := c.Chat.Completions.New(t.Context(), chatParams()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Chat.Completions.New(t.Context(), chatParams()); err == nil || <-crashed != 1 {
		t.Fatalf("the second request did not crash it: %v", err)
	}

	_, url = setup(t, "--hang-after=1ns")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Fatalf("a hanging engine answers %d", res.StatusCode)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"--model=x", "--tokens=0"}, {"--model=x", "--concurrency=-1"}, {"--model=x", "--ttft=-1s"}, {"--model=x", "extra"}, {"--nonsense"},
	} {
		if o, err := ParseOptions(args, io.Discard); err == nil {
			t.Errorf("%q became %+v", args, o)
		}
	}
}
