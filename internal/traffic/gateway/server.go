package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// deadPeerLimit is how long a caller may be unreachable, or accept nothing of
// what is sent, before the connection counts as dead and the engine's work for
// it is cancelled.
const deadPeerLimit = time.Minute

const (
	// headerTimeout is how long a caller may take for a TLS handshake, and
	// for a request's header.
	headerTimeout = 10 * time.Second
	// maxHeader is the most of a request's header that is read. It is what
	// callers are told; net/http reads 4 KiB more.
	maxHeader = 64 << 10
)

// Server is an http.Server all of whose answers have OpenAI's error shape,
// also those that net/http gives by itself to what is no request.
type Server struct {
	*http.Server
	// Connections bounds how many callers are connected; nil: nobody does.
	Connections *Connections
	cut         context.CancelCauseFunc // ends all requests
	untaken     *untaken
}

// NewServer returns a server for handler with limits that fit long answers: a
// caller has ten seconds for the header, and ten for a body that its handler
// gives no other bound. Nothing bounds how long an answer takes, as long as the
// caller takes what there is of it. It speaks HTTP/1.1 and HTTP/2, the latter with TLS or,
// for clients that know beforehand, without. It has no address; hand it a
// listener.
func NewServer(handler http.Handler) *Server {
	base, cut := context.WithCancelCause(context.Background())
	untaken := newUntaken()
	return &Server{cut: cut, untaken: untaken, Server: &http.Server{
		BaseContext:       func(net.Listener) context.Context { return base },
		Handler:           answeredBy(untaken.watch(BoundBodies(handler))),
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      unheardLimit, // until the handler begins, see watch
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols(),
		// OPTIONS * is none of the endpoints.
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			// A connection keeps the largest frame's buffer.
			MaxReadFrameSize: 16 << 10,
			// What of a body comes before it is read; its limit is another.
			MaxReceiveBufferPerStream: 128 << 10, MaxReceiveBufferPerConnection: 1 << 20,
			// Pings find a peer that vanished, as probes do for TCP.
			SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: deadPeerLimit,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp := tcpOf(c); tcp != nil {
				watchPeer(tcp)
			}
			return withConn(ctx, c)
		},
		ConnState: connState,
	}}
}

// Serve is http.Server's.
func (s *Server) Serve(l net.Listener) error {
	return s.Server.Serve(wordedListener{s.Connections.on(l), s.untaken})
}

// ServeTLS does the same with TLS by TLSConfig, which must have a certificate.
func (s *Server) ServeTLS(l net.Listener) error {
	config := s.TLSConfig.Clone()
	if len(config.NextProtos) == 0 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	secured := secure(s.Connections.on(l), config, s.ErrorLog, s.untaken)
	defer func() { _ = secured.Close() }()
	return s.Server.Serve(secured)
}

// maxStreams is how many requests one HTTP/2 connection may have at once: a
// proxy in front sends those of all its callers over a few connections.
const maxStreams = 1000

func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// tcpOf looks through what a connection is wrapped in.
func tcpOf(c net.Conn) *net.TCPConn {
	for c != nil {
		if tcp, ok := c.(*net.TCPConn); ok {
			return tcp
		}
		c = innerOf(c)
	}
	return nil
}

// countedOf is the same for the connection that is counted, if there is one.
func countedOf(c net.Conn) *countedConn {
	for c != nil {
		if counted, ok := c.(*countedConn); ok {
			return counted
		}
		c = innerOf(c)
	}
	return nil
}

func innerOf(c net.Conn) net.Conn {
	switch outer := c.(type) {
	case *countedConn:
		return outer.Conn
	case *wordedConn:
		return outer.Conn
	case *tls.Conn:
		return outer.NetConn()
	}
	return nil
}

// watchPeer finds out about a caller who vanished without a word: probes while
// the connection is idle, a bound for what stays unacknowledged while it is
// not. Where the system refuses, its own, longer limits stay in force.
func watchPeer(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3})
	boundUnacknowledged(c, deadPeerLimit)
}
