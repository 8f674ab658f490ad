package gateway

import (
	"context"
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
// takes part in it. It has no address; hand it a listener.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				watchPeer(tcp)
			}
			return ctx
		},
	}
}

// watchPeer finds out about a caller who vanished without a word: probes while
// the connection is idle, a bound for what stays unacknowledged while it is
// not. Where the system refuses, its own, longer limits stay in force.
func watchPeer(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3})
	boundUnacknowledged(c, deadPeerLimit)
}
