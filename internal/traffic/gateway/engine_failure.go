package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// maxFailure is how much of an engine's error is read.
const maxFailure = 64 << 10

// relayFailure answers with the engine's error: unchanged if it has OpenAI's
// shape, otherwise in that shape and without what lies behind the gateway.
func (g *Gateway) relayFailure(x *exchange, a *answer) error {
	text, err := io.ReadAll(io.LimitReader(a.source, maxFailure))
	if err != nil && x.r.Context().Err() != nil {
		return x.sourceFailed(err)
	}
	x.rec.LastByteAt = x.now()
	if said, ok := readEngineError(text); ok && said.conforms {
		x.rec.Outcome, x.rec.Error = traffic.UpstreamError, said.code
		header := x.w.Header()
		returnHeader(header, a, x.rec.Version)
		header["Content-Type"] = []string{"application/json"}
		header["Content-Length"] = []string{strconv.Itoa(len(text))}
		if a.StatusCode >= 500 && a.StatusCode != http.StatusServiceUnavailable && header["X-Should-Retry"] == nil {
			header["X-Should-Retry"] = []string{"false"}
		}
		x.start(a.StatusCode)
		return x.send(text)
	}
	f := engineFailure(statusFor(a.StatusCode), wordsOf(a.StatusCode, a.Header.Get("Content-Type"), text))
	if f.status < 500 {
		f.kind = typeRequest
	}
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && after > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(min(after, 120)))
	}
	return f
}

// statusFor keeps what is the caller's to mend. An engine that wants a key of
// its own is not: that would look as if the caller's were wrong.
func statusFor(status int) int {
	switch {
	case status >= 500, status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusProxyAuthRequired:
		return http.StatusBadGateway
	}
	return status
}

// wordsOf makes a message of an engine's error that is not in OpenAI's shape.
func wordsOf(status int, contentType string, text []byte) string {
	words := fmt.Sprintf("the model's engine answered %d", status)
	if said, ok := readEngineError(text); ok {
		return words + ": " + said.message
	}
	if mediaOf(contentType) == "text/plain" {
		if line := presentable(string(text)); line != "" {
			return words + ": " + line
		}
	}
	return words + " without an explanation that can be passed on"
}

// engineError is what an engine's JSON says about its failure.
type engineError struct {
	message, kind, code, param string
	conforms                   bool // it has OpenAI's shape already
}

// readEngineError understands {"error":{…}}, {"error":"…"}, {"message":…} and
// {"detail":…}.
func readEngineError(text []byte) (engineError, bool) {
	var doc struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	// Members of an unexpected type stay empty; the others are still read.
	var wrongType *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &doc); err != nil && !errors.As(err, &wrongType) {
		return engineError{}, false
	}
	if e, ok := readErrorObject(doc.Error); ok {
		return e, true
	}
	e := engineError{kind: doc.Type, code: scalar(doc.Code)}
	for _, said := range []json.RawMessage{doc.Error, doc.Message, doc.Detail} {
		if e.message = presentable(scalar(said)); e.message != "" {
			return e, true
		}
	}
	return engineError{}, false
}

// readErrorObject reads OpenAI's error object.
func readErrorObject(raw json.RawMessage) (engineError, bool) {
	var object struct {
		Message *string         `json:"message"`
		Type    json.RawMessage `json:"type"`
		Param   json.RawMessage `json:"param"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(raw, &object) != nil || object.Message == nil || *object.Message == "" {
		return engineError{}, false
	}
	e := engineError{kind: scalar(object.Type), code: scalar(object.Code), param: scalar(object.Param)}
	textual := func(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' }
	e.conforms = textual(object.Type) && textual(object.Code)
	if e.message = *object.Message; !e.conforms {
		e.message = presentable(e.message)
	}
	return e, true
}

// scalar is a string's value, or other JSON as it is written; null is empty.
func scalar(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// brokenAnswer is the failure that a response's own last event tells of.
func brokenAnswer(e wire.Event) *failure {
	var doc struct {
		Response struct {
			Error json.RawMessage `json:"error"`
		} `json:"response"`
	}
	f := engineFailure(http.StatusBadGateway, "the model failed in the middle of its answer")
	if json.Unmarshal(e.Data, &doc) == nil {
		if said, ok := readErrorObject(doc.Response.Error); ok && said.code != "" {
			f.code = said.code
		}
	}
	return f
}

// failureOf is the failure that an event of a stream reports.
func failureOf(e wire.Event) *failure {
	text := e.Data
	if !e.HasData {
		text = e.Stray
	}
	f := engineFailure(http.StatusBadGateway, "the model's engine failed in the middle of its answer")
	said, ok := readEngineError(text)
	if !ok {
		said.message = presentable(string(text))
	}
	if said.message != "" {
		f.message = said.message
	}
	if said.kind != "" {
		f.kind = said.kind
	}
	if said.code != "" {
		f.code = said.code
	}
	f.param = said.param
	if said.conforms && e.HasData {
		f.verbatim = append([]byte(nil), text...)
	}
	return f
}
