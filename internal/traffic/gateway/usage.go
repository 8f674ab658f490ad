package gateway

import (
	"modeldock.io/internal/traffic/gateway/wire"
)

// What a call used is told by two who both have an interest: its caller, who
// says how much it wants, and its engine, which is other people's code and says
// how much it did. Neither alone decides. An engine's claim counts as far as
// what was relayed, or what the caller let it do, bears it out; and no word of
// the caller makes that less.

const (
	// assumedTokens is how long an answer is taken to be whose request does
	// not bound it. Its usage corrects that.
	assumedTokens = 256
	// mostUnshown is how much of an answer that the caller does not see may
	// count, however long the caller lets it be: many say "no limit" by the
	// largest number that they know.
	mostUnshown = 32 << 10
	// mostAnswers bounds how many answers a request is taken to ask for.
	mostAnswers = 1 << 16
)

// estimate is what a request is taken to need before it is answered.
type estimate struct {
	bytes   int64 // of its body
	prompt  int64 // tokens
	answer  int64 // tokens; 0: its operation makes none
	unshown int64 // tokens that count without being relayed, at most
}

func (e estimate) tokens() int64 { return e.prompt + e.answer }

// estimate reads what the request asks for.
func (op operation) estimate(asked *wire.Request, size int) estimate {
	e := estimate{bytes: int64(size), prompt: asked.InputTokens(size)}
	if !op.streams {
		return e
	}
	each, count := op.answers(asked)
	if each == 0 {
		each = assumedTokens
	}
	e.answer = each * count
	e.unshown = min(max(each, assumedTokens), mostUnshown) * count
	return e
}

// answers is how many tokens an answer may have, 0 if that is not said, and how
// many answers are wanted.
func (op operation) answers(asked *wire.Request) (each, count int64) {
	if op.asks == nil {
		return 0, 1
	}
	each, count = op.asks(asked)
	return each, min(max(count, 1), mostAnswers)
}

func chatAnswers(r *wire.Request) (each, count int64) {
	return max(r.MaxTokens, r.MaxCompletionTokens), r.Choices
}

// textAnswers: each prompt is answered n times, and of best_of tries those n
// are shown.
func textAnswers(r *wire.Request) (each, count int64) {
	tries := min(max(r.Choices, r.BestOf, 1), mostAnswers)
	return r.MaxTokens, tries * max(r.Prompts, 1)
}

func responseAnswers(r *wire.Request) (each, count int64) { return r.MaxOutputTokens, 1 }

// answered is what of an answer was relayed.
type answered struct {
	chunks int64 // events with content
	text   int64 // bytes of content
	most   int64 // bytes that may be content: no token is shorter than one
	whole  bool  // all of it was there, so that its usage is the last word
}

// event counts one event of a stream, whose data has so many bytes. What is not
// known for content may hold some all the same, in members that only this
// engine has.
func (a *answered) event(c wire.Chunk, size int) {
	if c.Kind == wire.UsageOnly { // which says nothing else
		return
	}
	if c.Kind == wire.Content {
		a.chunks++
	}
	a.text += c.Text
	if a.most += c.Text; c.Text == 0 {
		a.most += int64(size)
	}
}

// body counts the first n bytes of an answer that is no stream.
func (a *answered) body(n int64, said wire.Chunk) {
	a.text, a.most = said.Text, n
	if said.Text == 0 {
		a.text = n
	}
}

// opaque counts n more bytes of an answer that nobody has read.
func (a *answered) opaque(n int64) {
	a.text += n
	a.most += n
}

// reported tells whether the engine has said what was used.
func (x *exchange) reported() bool { return x.rec.PromptTokens > 0 || x.rec.CompletionTokens > 0 }

// used is how many tokens the request has cost, as far as can be told.
func (x *exchange) used() int64 {
	if x.free || x.rec.SentAt.IsZero() {
		return 0
	}
	prompt := x.estimate.prompt
	if x.reported() { // no token of a prompt is shorter than a byte of the body
		prompt = min(max(x.rec.PromptTokens, 0), x.estimate.bytes)
	}
	return prompt + x.answerUsed()
}

// answerUsed is the answer's part of it. Where the answer was cut, by its
// caller or otherwise, the engine may have reported too early, or not at all:
// it has then made what was relayed at least.
func (x *exchange) answerUsed() int64 {
	a, e := &x.answered, &x.estimate
	if e.answer == 0 {
		return 0
	}
	claimed := min(max(x.rec.CompletionTokens, 0), max(a.most, e.unshown))
	shown := max(a.chunks, wire.TextTokens(a.text)) // most engines send about a token in an event
	switch {
	case x.reported() && a.whole:
		return claimed
	case x.reported() || shown > 0:
		return max(claimed, shown)
	}
	return max(e.answer, min(wire.TextTokens(a.most), e.unshown))
}
