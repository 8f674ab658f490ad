package scenario

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Stream is one streamed answer as the caller saw it.
type Stream struct {
	Status    int
	RequestID string
	Text      string
	Chunks    int
	Done      bool   // [DONE] arrived
	Err       string // message of an error event, or of a refusal
	Code      string
}

// Chat streams one answer; at, if given, is called after each content chunk
// and may cancel the context.
func (c Caller) Chat(ctx context.Context, model string, extra map[string]any, at func(chunk int)) Stream {
	c.t.Helper()
	body := map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": "hello"}}}
	for k, v := range extra {
		body[k] = v
	}
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.h.Gateway()+"/v1/chat/completions", bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.h.Key(c.who))
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return Stream{Err: ctx.Err().Error()}
		}
		c.t.Fatalf("chat with %s: %v", model, err)
	}
	defer func() { _ = resp.Body.Close() }()
	s := Stream{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id")}
	if resp.StatusCode != http.StatusOK {
		s.refused(resp.Body)
		return s
	}
	s.read(resp.Body, at)
	return s
}

type chunk struct {
	Choices []struct{ Delta struct{ Content string } }
	Error   *struct{ Message, Code string }
}

func (s *Stream) refused(r io.Reader) {
	var c chunk
	data, _ := io.ReadAll(r)
	if json.Unmarshal(data, &c) == nil && c.Error != nil {
		s.Err, s.Code = c.Error.Message, c.Error.Code
		return
	}
	s.Err = string(data)
}

func (s *Stream) read(r io.Reader, at func(int)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			s.Done = true
			continue
		}
		var c chunk
		if json.Unmarshal([]byte(data), &c) != nil {
			continue
		}
		if c.Error != nil {
			s.Err, s.Code = c.Error.Message, c.Error.Code
		}
		for _, choice := range c.Choices {
			if choice.Delta.Content != "" {
				s.Text += choice.Delta.Content
				s.Chunks++
				if at != nil {
					at(s.Chunks)
				}
			}
		}
	}
}

// MustChat streams an answer to its end.
func (c Caller) MustChat(model string) Stream {
	c.t.Helper()
	s := c.Chat(context.Background(), model, nil, nil)
	if s.Status != http.StatusOK || !s.Done || s.Chunks == 0 || s.Err != "" {
		c.t.Fatalf("chat with %s as %s: %+v; want 200, chunks and [DONE]", model, c.who, s)
	}
	return s
}

// CountEvents reads an SSE counter of the engine's metrics through no one:
// stories ask the engine's own address where they need what it saw.
func engineMetric(t testing.TB, address, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatalf("read the engine's metrics: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	var sum float64
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, name) {
			var v float64
			if err := json.Unmarshal([]byte(line[strings.LastIndexByte(line, ' ')+1:]), &v); err == nil {
				sum += v
			}
		}
	}
	return sum
}
