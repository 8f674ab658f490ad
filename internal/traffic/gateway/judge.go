package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"modeldock.io/internal/traffic/gateway/wire"
)

// mediaOf is a content type without its parameters.
func mediaOf(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func (a *answer) media() string { return mediaOf(a.Header.Get("Content-Type")) }

// mayBeJSON is false if the engine itself says that its answer is none.
func (a *answer) mayBeJSON() bool {
	media := a.media()
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// sealed tells that the answer passes compressed, so that it cannot be read.
func (a *answer) sealed() bool {
	encoding := a.Header.Get("Content-Encoding")
	return !a.decoded && encoding != "" && !strings.EqualFold(encoding, "identity")
}

// judge reads an answer that claims success and is no stream of events, before
// anything of it is passed on: start is all of it if whole. An engine that
// crashed behind a 200 must not look like a model that had nothing to say. Of
// an answer too long to be kept only the first character is judged.
func (x *exchange) judge(a *answer, start []byte, whole bool, as manner) (wire.Chunk, error) {
	text := bytes.TrimLeft(start, " \t\r\n")
	switch {
	case x.plain && strings.HasPrefix(a.media(), "text/") && a.media() != "text/html":
		return wire.Chunk{}, nil // a transcript, which may be empty
	case len(text) == 0 && whole:
		return wire.Chunk{}, x.invalidAnswer(fmt.Sprintf("%d with an empty body", a.StatusCode), "")
	case a.sealed() && !as.events():
		return wire.Chunk{}, nil
	case !whole && as.events():
		return wire.Chunk{}, x.invalidAnswer(fmt.Sprintf("%d with a long body of JSON where events were asked for", a.StatusCode), "")
	case !whole && len(text) > 0 && text[0] == '{':
		return wire.Chunk{}, nil
	case !whole:
		return wire.Chunk{}, x.invalidAnswer(fmt.Sprintf("%d with a long body that is not a JSON object", a.StatusCode), "")
	}
	said, err := wire.ReadAnswer(text)
	switch {
	case err != nil && (as.stream || !json.Valid(text)):
		words := ""
		if a.media() == "text/plain" {
			words = presentable(string(text))
		}
		return said, x.invalidAnswer(fmt.Sprintf("%d with %d bytes that are not a JSON object", a.StatusCode, len(start)), words)
	case as.stream && said.Seen == 0:
		engine, _ := readEngineError(text)
		return said, x.invalidAnswer(fmt.Sprintf("%d with JSON that is no completion", a.StatusCode), engine.message)
	case as.events(): // clients that read events would find none
		return said, x.invalidAnswer(fmt.Sprintf("%d with JSON where events were asked for", a.StatusCode), "")
	}
	return said, nil
}

// invalidAnswer is the error for an answer whose status claims a success that
// the rest of it denies. words are the engine's own, if there are any.
func (x *exchange) invalidAnswer(what, words string) error {
	if words = presentable(words); words != "" {
		what += " (" + words + ")"
	}
	f := engineFailure(http.StatusBadGateway, fmt.Sprintf("the model's engine answered %s; the model's owner sees what went wrong with \"modeldock logs %s\"",
		what, x.rec.ReservationID))
	f.code = "invalid_upstream_answer"
	return f
}
