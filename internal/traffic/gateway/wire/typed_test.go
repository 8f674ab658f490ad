package wire_test

import (
	"strings"
	"testing"

	"modeldock.io/internal/traffic/gateway/wire"
)

// TestTypedEvents: what the events of responses and transcripts mean.
func TestTypedEvents(t *testing.T) {
	t.Parallel()
	usage := `"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}`
	cases := map[string]struct {
		event             string
		kind              wire.Kind
		seen, ended       uint64
		prompt, completed int64
	}{
		"created":    {"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"error\":null,\"usage\":null}}", wire.Other, 0, 0, 0, 0},
		"delta":      {"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}", wire.Content, 0, 0, 0, 0},
		"no delta":   {"data: {\"type\":\"response.output_text.delta\",\"delta\":\"\"}", wire.Other, 0, 0, 0, 0},
		"completed":  {"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"," + usage + "}}", wire.Done, 1, 1, 7, 3},
		"unnamed":    {"data: {\"response\":{" + usage + "},\"type\":\"response.completed\"}", wire.Done, 1, 1, 7, 3},
		"incomplete": {"data: {\"type\":\"response.incomplete\",\"response\":{" + usage + "}}", wire.Done, 1, 0, 7, 3},
		"failed":     {"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"oom\",\"message\":\"x\"}}}", wire.Broken, 1, 0, 0, 0},
		"error":      {"event: error\ndata: {\"type\":\"error\",\"code\":\"oom\",\"message\":\"x\"}", wire.Failure, 0, 0, 0, 0},
		"transcript": {"data: {\"type\":\"transcript.text.done\",\"text\":\"hi\"," + usage + "}", wire.Done, 1, 1, 7, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var scan wire.EventScanner
			var reader wire.Reader
			e, ok := scan.Next([]byte(c.event + "\n\n"))
			if !ok {
				t.Fatal("no event")
			}
			got := reader.Read(e)
			if got.Kind != c.kind || got.Seen != c.seen || got.Ended != c.ended || got.Prompt != c.prompt || got.Completion != c.completed {
				t.Errorf("%+v, want %+v", got, c)
			}
		})
	}
}

// TestLongLastEvent: an event whose beginning was given up still ends its
// stream.
func TestLongLastEvent(t *testing.T) {
	t.Parallel()
	var scan wire.EventScanner
	var reader wire.Reader
	if _, ok := scan.Next([]byte("event: response.completed\ndata: {" + strings.Repeat(" ", 100))); ok {
		t.Fatal("half an event is one")
	}
	scan.GiveUp()
	e, ok := scan.Next([]byte("}\n\n"))
	if got := reader.Read(e); !ok || got.Kind != wire.Done || got.Ended != 1 {
		t.Errorf("%v %+v", ok, got)
	}
}

func TestReadTypedAnswer(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.Chunk{
		`{"object":"response","status":"completed","error":null,"output":[],"text":{"format":{}},"usage":{"input_tokens":7,"output_tokens":3}}`: {Seen: 1, Ended: 1, Usage: wire.Usage{Reported: true, Prompt: 7, Completion: 3}},
		`{"object":"response","status":"incomplete","output":[],"usage":{"input_tokens":7,"output_tokens":3}}`:                                  {Seen: 1, Usage: wire.Usage{Reported: true, Prompt: 7, Completion: 3}},
		`{"text":"hi"}`: {Seen: 1, Ended: 1},
		`{"results":[],"usage":{"total_tokens":9}}`: {Kind: wire.UsageOnly, Usage: wire.Usage{Reported: true, Prompt: 9}},
	} {
		if got, err := wire.ReadAnswer([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", body, got, err, want)
		}
	}
}
