package gateway

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"modeldock.io/internal/traffic"
)

// relay passes the engine's answer on: an error in OpenAI's shape, events as
// they are made, other JSON as it is.
func (g *Gateway) relay(x *exchange, a *answer, as manner) error {
	if err := a.decode(x.r.Header.Get("Accept-Encoding")); err != nil {
		return err
	}
	switch {
	case x.events && (a.StatusCode >= 300 || a.media() != "text/event-stream"):
		return x.failureAfterProgress(a)
	case a.StatusCode >= 400:
		x.unused()
		return g.relayFailure(x, a)
	case a.StatusCode >= 300:
		return engineFailure(http.StatusBadGateway, fmt.Sprintf("the model's engine answered %d, a redirection, which is not followed", a.StatusCode))
	case a.media() == "text/event-stream":
		if !as.stream || !a.keepable() {
			x.fill = nil
		}
		return g.relayStream(x, a, as)
	case as.events() && a.media() == "":
		return x.invalidAnswer(fmt.Sprintf("%d without a content type where events were asked for", a.StatusCode), "")
	case as.stream && !a.mayBeJSON():
		// Not read to its end: it may be one that never comes.
		return x.invalidAnswer(fmt.Sprintf("%d with content type %.60q where events were asked for", a.StatusCode, a.media()), "")
	}
	return g.relayBody(x, a, as)
}

// decode undoes the compression of an engine that compresses although it was
// asked not to. What cannot be undone passes only if the caller accepts it.
func (a *answer) decode(accepted string) error {
	encoding := strings.ToLower(strings.TrimSpace(a.Header.Get("Content-Encoding")))
	switch {
	case encoding == "" || encoding == "identity":
		return nil
	case encoding == "gzip" || encoding == "x-gzip":
		a.source, a.decoded, a.ContentLength = &gunzip{from: a.Answer}, true, -1
		return nil
	case strings.Contains(strings.ToLower(accepted), encoding):
		return nil
	}
	return engineFailure(http.StatusBadGateway,
		fmt.Sprintf("the model's engine compressed its answer as %.20q, which the caller does not accept", encoding))
}

// gunzip opens its source at the first Read: a stream's header may have to be
// passed on long before its first byte comes.
type gunzip struct {
	from io.Reader
	z    *gzip.Reader
}

func (u *gunzip) Read(p []byte) (int, error) {
	if u.z == nil {
		z, err := gzip.NewReader(u.from)
		if err != nil {
			return 0, fmt.Errorf("decompress the answer: %w", err)
		}
		u.z = z
	}
	return u.z.Read(p)
}

// engineFailure is an error of the engine that has no words of its own.
func engineFailure(status int, message string) *failure {
	return &failure{
		status: status, kind: typeServer, code: "upstream_error", outcome: traffic.UpstreamError,
		message: message, noRetry: status >= 500,
	}
}

// sourceFailed says why the engine's answer could not be read to its end.
func (x *exchange) sourceFailed(err error) error {
	if x.r.Context().Err() != nil {
		return x.gone()
	}
	x.g.often.Warn("broke off "+x.rec.Owner+"/"+x.rec.Model, "replica broke off its answer", "owner", x.rec.Owner, "model", x.rec.Model, "requestID", x.rec.RequestID, "endpoint", x.rec.EndpointUID, "error", err)
	return &failure{
		status: http.StatusBadGateway, kind: typeServer, code: "upstream_cut", outcome: traffic.UpstreamCut,
		message: "the model's replica stopped before its answer was complete; what came so far is not the whole answer",
		noRetry: true,
	}
}

// send writes to the caller; an error means that the caller left, or is cut off.
func (x *exchange) send(p []byte) error {
	if _, err := x.w.Write(p); err != nil { //nolint:gosec // an engine's answer passes as it is, that is the purpose
		return x.gone()
	}
	return nil
}

// flush sends what was written on its way.
func (x *exchange) flush(rc *http.ResponseController) error {
	err := rc.Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return x.gone()
	}
	return nil
}

// buffers keeps what answers are read into.
type buffers struct{ pool sync.Pool } // of *[largeBuffer]byte

const (
	// smallBuffer makes one write of the server's connection buffer (4 KiB)
	// together with the chunk's frame: one system call per read.
	smallBuffer = 4<<10 - 16
	largeBuffer = 64 << 10
)

func (b *buffers) get() *[largeBuffer]byte {
	if p, ok := b.pool.Get().(*[largeBuffer]byte); ok {
		return p
	}
	return new([largeBuffer]byte)
}
