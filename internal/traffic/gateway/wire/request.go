package wire

import (
	"errors"
	"fmt"
)

// RequestError is what is wrong with a request's body, in the terms of the
// error that the caller gets.
type RequestError struct {
	Param string // the member at fault, or empty
	Code  string
	Err   error
}

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

func badMember(param, code, format string, args ...any) error {
	return &RequestError{Param: param, Code: code, Err: fmt.Errorf(format, args...)}
}

// Request is where the members that the gateway cares for lie in a body.
type Request struct {
	Model    string // decoded
	HasModel bool
	Stream   bool
	// AsksUsage is stream_options.include_usage as the caller set it.
	AsksUsage bool
	// Messages tells what the member "messages" is.
	Messages Presence
	// MaxTokens, MaxCompletionTokens and MaxOutputTokens are what the members
	// of these names let an answer have at most, 0 if they do not say. Which
	// of them counts is the operation's to know.
	MaxTokens, MaxCompletionTokens, MaxOutputTokens int64
	// Choices and BestOf are the members n and best_of, 0 for one answer;
	// Prompts is how many the member prompt holds, each answered by itself.
	Choices, BestOf, Prompts int64
	// Repeatable tells that the same request is meant to get the same answer:
	// its temperature is 0, or it has a seed.
	Repeatable bool
	// Background tells that the answer is not wanted now but fetched later.
	Background bool
	// Plain tells that the answer is asked for as text instead of JSON.
	Plain bool

	form       bool // it is a multipart form, not JSON
	formSize   int
	seen       uint32 // members that were there, as bits
	model      span   // the value, with its quotes
	options    span   // the value of stream_options, zero if absent
	usage      span   // the value of include_usage, zero if absent
	optionsMap bool   // stream_options is an object, not null
	optionsGap bool   // that object has other members
	hasStream  bool   // of a form
	prompt     span   // the value of what the model is to read
}

// Presence tells whether an array is there and has items.
type Presence int

// The presences.
const (
	Absent Presence = iota
	Empty
	Filled
)

// ScanRequest checks that body is one JSON object and finds its members. The
// errors are *RequestError.
func ScanRequest(body []byte) (Request, error) {
	var req Request
	c := &cursor{b: body}
	err := c.object(func(key []byte) error { return req.member(c, key) })
	if err == nil && c.space() != 0 {
		err = fmt.Errorf("there is something after the JSON object, at byte %d", c.i)
	} else if err == nil && c.i < len(body) { // a NUL is no white space
		err = c.fail("the end")
	}
	if err == nil {
		return req, nil
	}
	var known *RequestError
	if errors.As(err, &known) {
		return req, known
	}
	return req, &RequestError{Code: "invalid_json", Err: fmt.Errorf("the request body is not a JSON object: %w", err)}
}

func (r *Request) member(c *cursor, raw []byte) error {
	at, err := nameIn(raw, readMembers[:], "")
	if err != nil {
		return err
	}
	if at < 0 {
		return c.skip(1)
	}
	key := readMembers[at]
	if r.seen&(1<<at) != 0 {
		return badMember(key, spelling(key, "duplicate_member"), "the member %q is there twice; send it once", key)
	}
	r.seen |= 1 << at
	switch key {
	case "model":
		return r.scanModel(c)
	case "stream":
		return r.scanStream(c)
	case "stream_options":
		return r.scanOptions(c)
	case "messages":
		return r.scanPrompt(c, func() error { return r.scanMessages(c) })
	case "prompt":
		return r.scanPrompt(c, func() error { return r.scanPrompts(c) })
	case "input", "documents":
		return r.scanPrompt(c, func() error { return c.skip(1) })
	case "background":
		r.Background = c.space() == 't'
		return c.skip(1)
	default:
		return r.scanFigure(c, key)
	}
}

func (r *Request) scanModel(c *cursor) error {
	if c.space() != '"' {
		start := c.i
		if err := c.skip(1); err != nil {
			return err
		}
		return badMember("model", "invalid_type", "\"model\" must be a string, not %.40s", c.b[start:c.i])
	}
	start := c.i
	value, err := c.str()
	if err != nil {
		return err
	}
	r.HasModel, r.Model, r.model = true, unquote(value.of(c.b)), span{start, c.i}
	return nil
}

func (r *Request) scanStream(c *cursor) error {
	switch c.space() {
	case 't':
		r.Stream = true
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	if err := c.skip(1); err != nil {
		return err
	}
	return badMember("stream", "invalid_type", "\"stream\" must be true or false")
}

func (r *Request) scanOptions(c *cursor) error {
	first := c.space()
	start := c.i
	var err error
	switch first {
	case 'n':
		err = c.word("null")
	case '{':
		r.optionsMap = true
		err = c.object(func(key []byte) error { return r.option(c, key) })
	default:
		if err = c.skip(1); err == nil {
			err = badMember("stream_options", "invalid_type", "\"stream_options\" must be an object")
		}
	}
	r.options = span{start, c.i}
	return err
}

func (r *Request) option(c *cursor, key []byte) error {
	r.optionsGap = true
	switch at, err := nameIn(key, []string{"include_usage"}, "stream_options."); {
	case err != nil:
		return err
	case at < 0:
		return c.skip(2)
	}
	if r.usage.end != 0 {
		return badMember("stream_options.include_usage", "duplicate_member", "the member \"include_usage\" is there twice; send it once")
	}
	r.AsksUsage = c.space() == 't'
	start := c.i
	err := c.skip(2)
	r.usage = span{start, c.i}
	return err
}

func (r *Request) scanMessages(c *cursor) error {
	if c.space() != '[' {
		r.Messages = Filled // not an array: the engine says what it thinks of it
		return c.skip(1)
	}
	r.Messages = Empty
	return c.array(func() error {
		r.Messages = Filled
		return c.skip(2)
	})
}

// scanPrompts counts the prompts: a text, or the numbers of its tokens, is one,
// an array of such is as many as it holds.
func (r *Request) scanPrompts(c *cursor) error {
	r.Prompts = 1
	if c.space() != '[' {
		return c.skip(1)
	}
	var several int64
	err := c.array(func() error {
		if first := c.space(); first == '"' || first == '[' || first == '{' {
			several++
		}
		return c.skip(2)
	})
	r.Prompts = max(1, several)
	return err
}
