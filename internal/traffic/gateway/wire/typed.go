package wire

import "strings"

// Ending is what an event, or an answer, says about the end of its stream
// where that is not [DONE]: the streams of responses and of transcripts have
// typed events, whose last one tells how it went.
type Ending int

// The endings.
const (
	Open     Ending = iota // it goes on
	Complete               // all of it was there
	Limited                // it ends early, because a limit was met
	Failed                 // the model failed
)

func endingOf(name []byte) Ending {
	switch string(name) {
	case "response.completed", "transcript.text.done":
		return Complete
	case "response.incomplete":
		return Limited
	case "response.failed":
		return Failed
	}
	return Open
}

// ending makes the chunk the last one of its stream.
func (c Chunk) ending(e Ending) Chunk {
	switch e {
	case Complete:
		c.Kind, c.Seen, c.Ended = Done, c.Seen|1, c.Ended|1
	case Limited:
		c.Kind, c.Seen = Done, c.Seen|1
	case Failed:
		c.Kind, c.Seen = Broken, c.Seen|1
	}
	return c
}

// typed is what the members say that only typed events, responses and
// transcripts have.
type typed struct {
	ends      Ending // what "type" says about the end of the answer
	delta     bool   // …that it brings something
	plain     bool   // "text" is there: a transcript
	listing   bool   // "output" is there: a response
	completed bool   // …and its status says that it is whole
}

// typedMember reads the members of typed events, responses and transcripts.
func (w *walker) typedMember(key string) error {
	first := w.space()
	switch {
	case key == "type" && first == '"':
		value, err := w.str()
		name := value.of(w.b)
		w.ends, w.delta = endingOf(name), strings.HasSuffix(string(name), ".delta")
		return err
	case key == "status" && first == '"':
		value, err := w.str()
		w.completed = string(value.of(w.b)) == "completed"
		return err
	case key == "delta" && first == '"':
		return w.content()
	case key == "text" && first == '"':
		w.plain = true
	case key == "output" && first == '[':
		w.listing = true
	case key == "response" && first == '{':
		return w.object(w.responseMember)
	}
	return w.skip(1)
}

// responseMember looks for the usage in the response that a typed event holds.
func (w *walker) responseMember(key []byte) error {
	if string(key) == "usage" {
		return w.usage()
	}
	return w.skip(2)
}
