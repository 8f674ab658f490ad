package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/upstream"
)

// answer is the engine's answer while it is relayed.
type answer struct {
	*upstream.Answer
	x       *exchange
	lease   *route.Lease // the place on the replica
	source  io.Reader    // the body, decoded if it came compressed
	decoded bool
}

// close keeps the connection if the answer was read to its end and breaks it
// otherwise, which is how the engine learns that nobody listens. The place is
// free after that.
func (a *answer) close() {
	a.End()
	if a.x.rec.Outcome == traffic.UpstreamCut {
		a.lease.Failed()
	}
	a.x.g.giveBack(a.lease)
}

// forward sends the request to one replica and returns its answer's head.
func (g *Gateway) forward(x *exchange, op operation, to traffic.Endpoint, b *body) (*answer, error) {
	header := forwardedHeader(x.r.Header, x.rec.RequestID)
	x.passSpan(header)
	b.sentAt.Store(0)
	sending := g.cfg.Clock()
	response, err := g.engines.Do(x.r.Context(), &upstream.Request{
		Address: to.Address, User: to.UserID, Path: op.path, Header: header, Body: b.pieces, Length: b.length, Sent: b.use(g.cfg.Clock),
	})
	if err != nil {
		return nil, g.unreached(x, err, sending)
	}
	x.rec.FirstByteAt = g.cfg.Clock()
	x.rec.SentAt = sending
	if at := b.sentAt.Load(); at != 0 {
		x.rec.SentAt = time.Unix(0, at)
	}
	x.meter.firstByte.Observe(x.rec.FirstByteAt.Sub(x.rec.ReceivedAt).Seconds())
	return &answer{Answer: response, x: x, source: response}, nil
}

// unreached says why there is no answer: the caller left, the replica could
// not be reached, or it took the request and broke off.
func (g *Gateway) unreached(x *exchange, err error, sending time.Time) error {
	if x.r.Context().Err() != nil {
		x.rec.SentAt = sending
		return x.gone()
	}
	// The error itself names addresses: it is for the log, not for the caller.
	g.often.Warn("silent "+x.rec.Owner+"/"+x.rec.Model, "replica did not answer", "owner", x.rec.Owner, "model", x.rec.Model, "requestID", x.rec.RequestID, "endpoint", x.rec.EndpointUID, "error", err)
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
