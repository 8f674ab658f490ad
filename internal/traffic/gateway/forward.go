package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// newTransport is the way to the engines: plain HTTP/1.1 inside the cluster or
// the machine, no proxy, no compression of its own.
func newTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout:         5 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3},
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 512,
		WriteBufferSize:     2 << 10, // large bodies bypass it, small ones fit
		// Shorter than the five seconds after which common engines' servers
		// close an idle connection: a request must not meet that close.
		IdleConnTimeout:        4 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// No time limit for the answer: a first token may take minutes, and a
		// caller who does not want to wait can leave.
	}
}

// answer is the engine's response while it is relayed.
type answer struct {
	*http.Response
	x       *exchange
	lease   *route.Lease // the place on the replica
	source  io.Reader    // the body, decoded if it came compressed
	decoded bool
	cancel  context.CancelFunc
}

// close gives the connection back if the answer was read to its end and
// breaks it otherwise, which is how the engine learns that nobody listens.
// The place is free after that.
func (a *answer) close() {
	_ = a.Body.Close()
	a.cancel()
	if a.x.rec.Outcome == traffic.UpstreamCut {
		a.lease.Failed()
	}
	a.x.g.giveBack(a.lease)
}

// forward sends the request to one replica and returns its answer's head.
func (g *Gateway) forward(x *exchange, op operation, address string, b *body) (*answer, error) {
	ctx, cancel := context.WithCancel(x.r.Context())
	header := forwardedHeader(x.r.Header, x.rec.RequestID)
	x.passSpan(header)
	request := (&http.Request{
		Method:        http.MethodPost,
		URL:           &url.URL{Scheme: "http", Host: address, Path: op.path},
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Host:          address,
		Header:        header,
		Body:          b.reader(g.cfg.Clock),
		ContentLength: b.length,
		// For a connection that turned out dead before a byte was written.
		GetBody: func() (io.ReadCloser, error) { return b.reader(g.cfg.Clock), nil },
	}).WithContext(ctx)

	b.sentAt.Store(0)
	sending := g.cfg.Clock()
	response, err := g.transport.RoundTrip(request) //nolint:bodyclose // answer.close does it
	if err != nil {
		cancel()
		return nil, g.unreached(x, err, sending)
	}
	x.rec.FirstByteAt = g.cfg.Clock()
	x.rec.SentAt = sending
	if at := b.sentAt.Load(); at != 0 {
		x.rec.SentAt = time.Unix(0, at)
	}
	x.meter.firstByte.Observe(x.rec.FirstByteAt.Sub(x.rec.ReceivedAt).Seconds())
	return &answer{Response: response, x: x, source: response.Body, cancel: cancel}, nil
}

// unreached says why there is no answer: the caller left, the replica could
// not be reached, or it took the request and broke off.
func (g *Gateway) unreached(x *exchange, err error, sending time.Time) error {
	if x.r.Context().Err() != nil {
		x.rec.SentAt = sending
		g.metrics.upstreamCancels.Inc()
		return errGone
	}
	// The error itself names addresses: it is for the log, not for the caller.
	g.cfg.Logger.Warn("replica did not answer", "requestID", x.rec.RequestID, "endpoint", x.rec.EndpointUID, "error", err)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &failure{
			status: http.StatusBadGateway, kind: typeServer, code: "upstream_unreachable", outcome: traffic.UpstreamError,
			message: "the model's replica does not accept connections; the request was not sent, try again", unsent: true,
		}
	}
	x.rec.SentAt = sending
	return &failure{
		status: http.StatusBadGateway, kind: typeServer, code: "upstream_cut", outcome: traffic.UpstreamCut,
		message: "the model's replica broke the connection before it answered; it may have begun the work, which a new request would do again",
		noRetry: true,
	}
}
