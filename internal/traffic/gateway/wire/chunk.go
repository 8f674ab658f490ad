package wire

import (
	"bytes"
	"fmt"
)

// Kind is what an event means for the caller's evidence.
type Kind int

// The kinds.
const (
	Other     Kind = iota // a comment, a role opener, a ping: passes
	Content               // it carries something that the model made
	UsageOnly             // it carries the usage and no choice
	Done                  // [DONE]
	Failure               // the engine reports an error, in whatever form
	Broken                // the last event of an answer that failed; it passes as it is
)

// Chunk is what one event, or one whole answer, says.
type Chunk struct {
	Kind Kind
	// Seen and Ended are the indexes of the choices that it speaks of and of
	// those that have a finish_reason, as bits.
	Seen, Ended uint64
	// Text is how many bytes of content it has, as they are written in JSON.
	Text int64
	Usage
}

// Usage are the token counts that the engine reports.
type Usage struct {
	Reported   bool
	Prompt     int64
	Completion int64
}

// Reader says what the events of one stream mean. The zero value is ready.
type Reader struct{ last pattern }

// Read says what one event of a stream of completions means. What an event
// with a name of its own says is never a failure: engines name their pings and
// notes so, and clients that do not know the name skip them.
func (r *Reader) Read(e Event) Chunk {
	c := r.read(e)
	if c.Kind == Failure && e.Named {
		return Chunk{}
	}
	return c
}

func (r *Reader) read(e Event) Chunk {
	switch {
	case e.Torn:
		return Chunk{Kind: Content}.ending(e.Ends)
	case e.Failed || (!e.HasData && e.Stray != nil):
		return Chunk{Kind: Failure}
	case !e.HasData:
		return Chunk{}
	case r.last.matches(e.Data):
		return r.last.with(e.Data)
	}
	data := bytes.TrimSpace(e.Data)
	switch {
	case len(data) == 0:
		return Chunk{}
	case string(data) == "[DONE]":
		return Chunk{Kind: Done}
	}
	w := walker{cursor: cursor{b: data}}
	if w.answer() != nil {
		return Chunk{Kind: Failure} // not JSON: the text of a crash
	}
	c := w.verdict()
	r.last.learn(c, data, w.text)
	return c
}

// ReadAnswer says what a whole JSON answer means. The error tells that it is
// not a JSON object.
func ReadAnswer(body []byte) (Chunk, error) {
	w := walker{cursor: cursor{b: body}}
	if err := w.answer(); err != nil {
		return Chunk{}, err
	}
	return w.verdict(), nil
}

// ReadTailUsage looks for the usage in the last bytes of an answer that is too
// long to be kept. Inside a JSON string its quotes would be escaped, so that
// the last unescaped `"usage":` is a member's name.
func ReadTailUsage(tail []byte) Usage {
	const name = `"usage"`
	for at := bytes.LastIndex(tail, []byte(name)); at >= 0; at = bytes.LastIndex(tail[:at], []byte(name)) {
		if at > 0 && tail[at-1] == '\\' {
			continue
		}
		w := walker{cursor: cursor{b: tail, i: at + len(name)}}
		if w.space() != ':' {
			continue
		}
		w.i++
		if w.usage() == nil && w.found.Reported {
			return w.found.Usage
		}
	}
	return Usage{}
}

// walker reads the members that matter on one pass.
type walker struct {
	cursor
	found   Chunk
	choices int
	index   int64 // of the current choice
	ended   bool  // it has a finish_reason
	text    span  // the last value that counted as content
	listed  bool  // "choices" is there
	total   int64 // "total_tokens" of the usage
	failed  bool  // "error" is there and not null
	message bool  // "message" or "detail" is there
	typed
}

func (w *walker) verdict() Chunk {
	c := w.found
	switch {
	case w.failed || (w.message && !w.listed):
		c.Kind = Failure
	case w.ends != Open:
		return c.ending(w.ends)
	case w.listing, w.plain && !w.listed:
		c.Seen |= 1
		if w.plain || w.completed {
			c.Ended |= 1
		}
	case c.Reported && w.choices == 0 && !w.delta:
		c.Kind = UsageOnly
	}
	return c
}

func (w *walker) answer() error {
	if err := w.object(w.answerMember); err != nil {
		return err
	}
	if w.space(); w.i < len(w.b) {
		return fmt.Errorf("there is something after the JSON object, at byte %d", w.i)
	}
	return nil
}

func (w *walker) answerMember(key []byte) error {
	switch string(key) {
	case "choices":
		w.listed = true
		if w.space() != '[' {
			return w.skip(1)
		}
		return w.array(w.choice)
	case "usage":
		return w.usage()
	case "type", "status", "delta", "text", "response", "output":
		return w.typedMember(string(key))
	case "error":
		w.failed = w.space() != 'n'
	case "message", "detail":
		w.message = true
	}
	return w.skip(1)
}

func (w *walker) choice() error {
	w.choices++
	if w.space() != '{' {
		return w.skip(2)
	}
	w.index, w.ended = 0, false
	err := w.object(w.choiceMember)
	bit := uint64(1) << (w.index & 63)
	w.found.Seen |= bit
	if w.ended {
		w.found.Ended |= bit
	}
	return err
}

func (w *walker) choiceMember(key []byte) error {
	switch string(key) {
	case "delta", "message":
		if w.space() == '{' {
			return w.object(w.deltaMember)
		}
	case "text":
		return w.content()
	case "logprobs":
		if w.space() == '{' {
			return w.object(func([]byte) error { return w.unshown() })
		}
	case "token_ids":
		return w.unshown()
	case "finish_reason":
		w.ended = w.space() == '"'
	case "index":
		return w.count(&w.index)
	}
	return w.skip(3)
}

// deltaMember: whatever a delta has beside the role was made by the model,
// be it text, reasoning, a refusal or a tool call.
func (w *walker) deltaMember(key []byte) error {
	if string(key) == "role" {
		return w.skip(4)
	}
	return w.content()
}

// content moves past a value and notes whether there is something in it.
func (w *walker) content() error {
	first := w.space()
	start := w.i
	if err := w.skip(4); err != nil {
		return err
	}
	if filled := w.i-start > len(`""`); filled && (first == '"' || first == '[' || first == '{') {
		w.found.Kind = Content
		w.text = span{start, w.i}
		w.found.Text += int64(w.i - start)
		if first == '"' {
			w.found.Text -= int64(len(`""`))
		}
	}
	return nil
}

// unshown moves past a list about tokens. One that is not empty tells that there
// were some, but not how long their text is.
func (w *walker) unshown() error {
	first, start := w.space(), w.i
	if err := w.skip(4); err != nil {
		return err
	}
	if first == '[' && w.i-start > len("[]") {
		w.found.Kind = Content
	}
	return nil
}

func (w *walker) usage() error {
	if w.space() != '{' {
		return w.skip(1)
	}
	w.found.Reported = true
	err := w.object(w.usageMember)
	if w.found.Prompt == 0 && w.found.Completion == 0 {
		w.found.Prompt = w.total // of what only reads
	}
	return err
}

func (w *walker) usageMember(key []byte) error {
	switch string(key) {
	case "prompt_tokens", "input_tokens":
		return w.count(&w.found.Prompt)
	case "completion_tokens", "output_tokens":
		return w.count(&w.found.Completion)
	case "total_tokens":
		return w.count(&w.total)
	}
	return w.skip(2)
}

// count moves past a number; what is no plain count counts as none.
func (w *walker) count(into *int64) error {
	const most = 1 << 50
	w.space()
	start := w.i
	if err := w.skip(2); err != nil {
		return err
	}
	var n int64
	for _, ch := range w.b[start:w.i] {
		if ch < '0' || ch > '9' || n > most {
			return nil
		}
		n = n*10 + int64(ch-'0')
	}
	*into = n
	return nil
}
