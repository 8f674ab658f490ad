package wire

import (
	"bytes"
	"strings"
	"testing"
)

// plainEvent is an event as the reference parser sees it.
type plainEvent struct {
	data                  string
	hasData, fails, named bool
	stray                 string
}

// referenceEvents parses a whole stream the slow and obvious way.
func referenceEvents(stream string) []plainEvent {
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var list []plainEvent
	var e plainEvent
	opened := false
	for n, line := range lines[:len(lines)-1] { // the last one is not ended
		if line == "" {
			if opened {
				list = append(list, e)
			}
			e, opened = plainEvent{}, false
			continue
		}
		if strings.HasPrefix(line, ":") {
			continue
		}
		opened = true
		if n == 0 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		named := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
		switch {
		case name == "data" && e.hasData:
			e.data += "\n" + value
		case name == "data":
			e.data, e.hasData = value, true
		case name == "event":
			e.fails = value == "error"
			e.named = !e.fails && value != "" && value != "message"
		case !named && e.stray == "":
			e.stray = line
		}
	}
	return list
}

// scanAll feeds a stream in steps and checks that windows lose no byte.
func scanAll(t *testing.T, stream string, step func(i int) int) []plainEvent {
	t.Helper()
	var s EventScanner
	var window []byte
	var list []plainEvent
	passed := 0
	for at, i := 0, 0; at < len(stream); i++ {
		n := min(max(step(i), 1), len(stream)-at)
		window = append(window, stream[at:at+n]...)
		at += n
		to := 0
		for {
			e, ok := s.Next(window)
			if !ok {
				break
			}
			if e.End <= to || e.End > len(window) {
				t.Fatalf("an event of %q ends at %d after %d", window, e.End, to)
			}
			to = e.End
			p := plainEvent{data: string(e.Data), hasData: e.HasData, fails: e.Failed, named: e.Named, stray: string(e.Stray)}
			if p != (plainEvent{}) {
				list = append(list, p)
			}
		}
		if !strings.HasPrefix(stream[passed:], string(window[:to])) {
			t.Fatalf("bytes changed at %d", passed)
		}
		passed += to
		window = append([]byte(nil), window[to:]...)
		s.Shift(to)
	}
	return list
}

// FuzzEventScanner: however the stream is torn, the events are those of the
// reference parser.
func FuzzEventScanner(f *testing.F) {
	for _, s := range []string{
		"data: a\n\ndata: b\r\n\r\ndata:c\r\rdata: d\n\n", ": c\n\ndata: x\ndata\ndata: y\n\nevent: error\ndata: z\n\n",
		"event: ping\ndata: a\n\ndata: b\n\nevent: ping\nevent:\ndata: c\n\nevent: error\nevent: x\n\nevent: message\ndata\n\n",
		"\ufeffdata: a\n\n", "oops here\n\n<html>\n\n", "id: 1\nretry: 2\n\n\n\n: x\ndata: 1\n: y\n\n", "data: a\r", "\r\n\r\n\n\r",
	} {
		f.Add(s, []byte{1, 2, 3})
		f.Add(s, []byte{})
	}
	f.Fuzz(func(t *testing.T, stream string, steps []byte) {
		step := func(i int) int {
			if len(steps) == 0 {
				return 1
			}
			return int(steps[i%len(steps)])
		}
		var want []plainEvent
		for _, e := range referenceEvents(stream) {
			if e != (plainEvent{}) {
				want = append(want, e)
			}
		}
		got := scanAll(t, stream, step)
		if len(got) != len(want) {
			t.Fatalf("%q: %d events %+v, want %d %+v", stream, len(got), got, len(want), want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q: event %d is %+v, want %+v", stream, i, got[i], want[i])
			}
		}
	})
}

// TestGiveUp: an event too long for the window is passed unread, and the next
// one is found.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 5, 6, 7, 9, 15} {
		const long, next = "id: 1\ndata: {\"error\": 1}\n\n", "data: b\n\n"
		var s EventScanner
		if _, ok := s.Next([]byte(long[:cut])); ok {
			t.Fatal("an event in its beginning")
		}
		s.GiveUp()
		rest := []byte(long[cut:] + next)
		e, ok := s.Next(rest)
		if !ok || !e.Torn || e.End != len(long)-cut || new(Reader).Read(e).Kind != Content {
			t.Errorf("cut at %d: %+v, %t", cut, e, ok)
		}
		if e, ok = s.Next(rest); !ok || e.Torn || string(e.Data) != "b" {
			t.Errorf("cut at %d: then %+v, %t", cut, e, ok)
		}
	}
}

func TestReadEvent(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]Chunk{
		`[DONE]`: {Kind: Done}, ` [DONE] `: {Kind: Done}, ``: {}, `{}`: {}, `{"type":"ping"}`: {},
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`:                             {Seen: 1},
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}`:                                  {Kind: Content, Seen: 1, Text: 1},
		`{"choices":[{"index":1,"delta":{"reasoning_content":"abc","content":"d"}}]}`:                     {Kind: Content, Seen: 2, Text: 4},
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x"}]}}]}`:                         {Kind: Content, Seen: 1, Text: 22},
		`{"choices":[{"index":0,"delta":{"tool_calls":[]}}]}`:                                             {Seen: 1},
		`{"choices":[{"index":0,"delta":{"role":"assistant"},"logprobs":{"content":[],"refusal":null}}]}`: {Seen: 1},
		`{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"a"}],"refusal":null}}]}`:      {Kind: Content, Seen: 1},
		`{"choices":[{"index":0,"logprobs":null,"token_ids":[]}]}`:                                        {Seen: 1},
		`{"choices":[{"index":0,"delta":{"content":""},"token_ids":[1]}]}`:                                {Kind: Content, Seen: 1},
		`{"choices":[{"index":0,"text":"a\n","finish_reason":null}]}`:                                     {Kind: Content, Seen: 1, Text: 3},
		`{"choices":[{"finish_reason":"length","delta":{},"index":3}]}`:                                   {Seen: 8, Ended: 8},
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"x":{"y":3}}}`:                    {Kind: UsageOnly, Usage: Usage{true, 1, 2}},
		`{"usage":{"prompt_tokens":1.5,"completion_tokens":-2}}`:                                          {Kind: UsageOnly, Usage: Usage{true, 0, 0}},
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`:                   {Kind: Content, Seen: 1, Text: 1, Usage: Usage{true, 1, 0}},
		`{"error":{"message":"x"}}`: {Kind: Failure}, `{"error":null,"choices":[]}`: {}, `{"message":"x"}`: {Kind: Failure},
		`{"choices":[],"message":"x"}`: {}, `nonsense`: {Kind: Failure}, `{"choices":[`: {Kind: Failure}, `{} {}`: {Kind: Failure},
	} {
		if got := new(Reader).Read(Event{HasData: true, Data: []byte(data)}); got != want {
			t.Errorf("%s: %+v, want %+v", data, got, want)
		}
	}
}

func TestReadTailUsage(t *testing.T) {
	t.Parallel()
	for tail, want := range map[string]Usage{
		`0.5]}],"usage":{"prompt_tokens":7,"total_tokens":7},"id":"x"}`:         {true, 7, 0},
		`"usage":{"prompt_tokens":1},"text":"\"usage\":{\"prompt_tokens\":2}"}`: {true, 1, 0},
		`"usage":null}`: {}, `"usage":{"prompt_tok`: {}, ``: {}, `usage":{"prompt_tokens":3}`: {},
	} {
		if got := ReadTailUsage([]byte(tail)); got != want {
			t.Errorf("%s: %+v, want %+v", tail, got, want)
		}
	}
}

func TestEventsDoNotAllocate(t *testing.T) { //nolint:paralleltest // counts allocations
	event := []byte(`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":2}}` + "\n\n")
	window := bytes.Repeat(event, 20)
	var s EventScanner
	var r Reader
	allocations := testing.AllocsPerRun(100, func() {
		n := 0
		for {
			e, ok := s.Next(window)
			if !ok {
				break
			}
			if r.Read(e).Kind == Content {
				n++
			}
		}
		if n != 20 {
			t.Fatal(n)
		}
		s.Shift(len(window))
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// TestPatternNeverChangesTheMeaning: after any first event, any second one
// means what it means to a reader who has seen nothing.
func TestPatternNeverChangesTheMeaning(t *testing.T) {
	t.Parallel()
	const frame = `{"choices":[{"index":0,"delta":{"content":"` + "%" + `"},"finish_reason":null}]}`
	texts := []string{
		"a", "b", "", `\n`, `\"`, `"},"finish_reason":"stop"}],"x":[{"y":{"z":"`, `"`, "\x01", `\`, "héllo",
		`","role":"x`, `"},"error":{"message":"`,
	}
	datas := []string{
		`[DONE]`, `{"error":{"message":"x"}}`, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `nonsense`,
		`{"choices":[{"index":1,"delta":{"content":"a"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"longer"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":["a"]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":5}}`,
	}
	for _, text := range texts {
		datas = append(datas, strings.Replace(frame, "%", text, 1), " "+strings.Replace(frame, "%", text, 1)+" ")
	}
	for _, first := range datas {
		for _, second := range datas {
			var r Reader
			r.Read(Event{HasData: true, Data: []byte(first)})
			event := Event{HasData: true, Data: []byte(second)}
			if got, want := r.Read(event), new(Reader).Read(event); got != want {
				t.Errorf("after %s\n%s means %+v, want %+v", first, second, got, want)
			}
		}
	}
}
