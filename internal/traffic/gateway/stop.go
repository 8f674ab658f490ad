package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"modeldock.io/internal/traffic"
)

// lastWords is how long those whose answers are cut at the end of the grace
// have to be told so.
const lastWords = 5 * time.Second

// errStopped is the cause with which a stopping server ends what runs.
var errStopped = errors.New("the gateway stops")

// Stop takes no new requests and lets those that run go on for grace. Those
// that are still there then are ended: each caller learns why, in the form
// that the answer still allows, before the connections close. all is false if there
// were such.
func (s *Server) Stop(grace time.Duration) (all bool) {
	if s.shutdown(grace) {
		return true
	}
	s.cut(errStopped)
	if !s.shutdown(lastWords) {
		_ = s.Close() // of what does not accept even that
	}
	return false
}

func (s *Server) shutdown(limit time.Duration) (all bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return s.Shutdown(ctx) == nil
}

// stopped tells that the request ends because the gateway does.
func (x *exchange) stopped() bool { return Stopped(x.r.Context()) }

// Stopped is the same for the context of any request that a Server serves.
func Stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

// left tells that the request ends because its caller left.
func (x *exchange) left() bool { return x.r.Context().Err() != nil && !x.stopped() }

// gone is the error of a request whose caller cannot be served any more: the
// caller left, or the gateway stops.
func (x *exchange) gone() error {
	switch {
	case !x.stopped() || !x.rec.DoneAt.IsZero():
		if !x.rec.SentAt.IsZero() {
			x.g.metrics.upstreamCancels.Inc()
		}
		return errGone
	case x.rec.SentAt.IsZero():
		return stopping()
	}
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "shutting_down", outcome: traffic.UpstreamCut,
		message: "the gateway stops and has ended this request before its answer was complete; " +
			"what came so far is not the whole answer, ask again in a few seconds",
		retryAfter: 2 * time.Second, dropped: droppedStopping,
	}
}
