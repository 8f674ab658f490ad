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

// NewServer returns a server for handler with limits that fit long answers: a
// caller has ten seconds for the header, but nothing bounds how long a body
// takes to arrive or an answer to be written, as long as the caller's machine
// takes part in it. It speaks HTTP/1.1 and HTTP/2, the latter with TLS or,
// for clients that know beforehand, without. It has no address; hand it a
// listener.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			// What of a body comes before it is read; its limit is another.
			MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 4 << 20,
			// Pings find a peer that vanished, as probes do for TCP.
			SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: deadPeerLimit,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secured, ok := c.(*tls.Conn); ok {
				c = secured.NetConn()
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				watchPeer(tcp)
			}
			return ctx
		},
	}
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

// watchPeer finds out about a caller who vanished without a word: probes while
// the connection is idle, a bound for what stays unacknowledged while it is
// not. Where the system refuses, its own, longer limits stay in force.
func watchPeer(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3})
	boundUnacknowledged(c, deadPeerLimit)
}
