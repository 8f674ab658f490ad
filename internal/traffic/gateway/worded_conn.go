package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// wordedListener makes every connection one whose refusals can be read.
type wordedListener struct {
	net.Listener
	crowd *untaken
}

func (l wordedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server looks at what kind it is
	}
	return newWordedConn(c, nil, l.crowd), nil
}

// wordedConn is a connection as net/http sees it. What net/http finds to be no
// valid request it answers by itself, and before any handler has run: on HTTP/1
// in plain text, which SDKs print as "status code (no body)". There is no hook
// for it, so the connection says the same in OpenAI's shape: whatever begins
// like an answer while no handler is answering is net/http's own. Of HTTP/2 it
// counts the requests, see streams.
type wordedConn struct {
	net.Conn
	secured   *tls.ConnectionState // nil without TLS
	streams   streams
	header    halfHeader  // of HTTP/1
	answering atomic.Bool // from the handler's beginning to the answer's end
	refused   atomic.Bool
}

func newWordedConn(c net.Conn, secured *tls.ConnectionState, crowd *untaken) *wordedConn {
	return &wordedConn{
		Conn: c, secured: secured, header: halfHeader{crowd: crowd},
		streams: streams{crowd: crowd, from: addressOf(c), block: headerBlock{halfHeader: halfHeader{crowd: crowd}}},
	}
}

// Read is the connection's, but see streams and halfHeader.
func (c *wordedConn) Read(p []byte) (int, error) {
	if c.streams.speakHTTP2() || c.answering.Load() {
		return c.streams.read(c.Conn, p)
	}
	if !c.header.mayGrow() {
		if !c.refused.Swap(true) {
			_, _ = c.Conn.Write(crowdedOut().raw(time.Now()))
		}
		return 0, errCrowdedOut
	}
	n, err := c.streams.read(c.Conn, p)
	if c.streams.greeted == notGreeted {
		c.header.add(n + fieldCost*bytes.Count(p[:n], []byte("\n")))
	}
	return n, err
}

// connKey finds the connection in a request's context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// answeredBy tells the connection that what it writes is the handler's, and the
// handler how the connection is secured. It ends a connection on which a body came in chunks. Such a request may have
// said a length as well, which net/http passes over without a word: to a proxy
// that goes by lengths, the rest of the body is something else than the next
// request. (RFC 9112, 6.1: to be closed after the answer.)
func answeredBy(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*wordedConn); ok {
			r.TLS = c.secured
			if r.ProtoMajor == 1 {
				c.answering.Store(true)
				c.header.whole()
			}
		}
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// connState hears from the server what its connections do. When an answer is
// complete, the next words are about the next request.
func connState(c net.Conn, state http.ConnState) {
	if counted := countedOf(c); counted != nil {
		counted.is(state)
	}
	if own, ok := c.(*wordedConn); ok && state == http.StateIdle {
		own.answering.Store(false)
	}
}

func (c *wordedConn) Write(p []byte) (int, error) {
	if !c.streams.speakHTTP2() && !c.answering.Load() && bytes.HasPrefix(p, []byte("HTTP/1.")) {
		c.refused.Store(true)
		if _, err := c.Conn.Write(cannedFailure(p).raw(time.Now())); err != nil {
			return 0, err //nolint:wrapcheck // a connection's errors are the system's
		}
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if c.streams.speakHTTP2() {
		c.streams.wrote(p[:n])
	}
	return n, err //nolint:wrapcheck // the same
}

// CloseWrite is for net/http, which does it before it hangs up on a caller who
// may still be sending.
func (c *wordedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // a connection's errors are the system's
}

// Close lets a caller who was refused read why: a system that is sent more
// than was read resets the connection, and the answer is lost with it.
func (c *wordedConn) Close() error {
	if c.streams.crowd != nil {
		c.streams.close()
		c.header.close()
	}
	if c.refused.Swap(false) && c.CloseWrite() == nil {
		const most, patience = 256 << 10, 500 * time.Millisecond
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.CopyN(io.Discard, c.Conn, most)
	}
	return c.Conn.Close() //nolint:wrapcheck // a connection's errors are the system's
}

// crowdedOut is for a header that may not grow.
func crowdedOut() *failure {
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "header_crowded_out",
		message: fmt.Sprintf("the request's header is larger than %d bytes, with %d more for each field, and too many others of that size are on their way; try again in a few seconds, or send less of a header", freeHeader, fieldCost),
	}
}

// cannedFailure says in our words what net/http's answer says.
func cannedFailure(canned []byte) *failure {
	head, text, _ := bytes.Cut(canned, []byte("\r\n\r\n"))
	_, status, _ := bytes.Cut(head, []byte(" "))
	code, _ := strconv.Atoi(string(status[:min(len(status), 3)]))
	f := &failure{status: code, kind: typeRequest}
	switch code {
	case http.StatusRequestHeaderFieldsTooLarge:
		f.code = "header_too_large"
		f.message = fmt.Sprintf("the request's header is larger than %d bytes, the most that is accepted; send fewer or shorter header fields, and what belongs to the model in the body", maxHeader)
	case http.StatusNotImplemented:
		f.code = "unsupported_transfer_encoding"
		f.message = `the request's Transfer-Encoding is not supported; send the body with Content-Length, or with "Transfer-Encoding: chunked"`
	case http.StatusHTTPVersionNotSupported:
		f.code = "unsupported_http_version"
		f.message = "the request's HTTP version is not supported; send HTTP/1.1 or HTTP/2"
	case http.StatusExpectationFailed:
		f.code = "expectation_failed"
		f.message = `the request's Expect is not supported; leave it out or send "Expect: 100-continue"`
	case http.StatusBadRequest:
		f.code, f.message = "malformed_request", malformed(text)
	default: // an answer that this release of net/http does not give
		f.status, f.code = http.StatusBadRequest, "malformed_request"
		f.message = malformed(nil)
	}
	return f
}

// malformed names what was wrong, where net/http does: after the status it
// has one of a few texts of its own, with nothing of the caller's in it.
func malformed(text []byte) string {
	if _, what, known := bytes.Cut(text, []byte("400 Bad Request: ")); known {
		return fmt.Sprintf("this is not a valid HTTP request: %s; send one by the rules of HTTP/1.1", what)
	}
	return "this is not a valid HTTP request: its first line, a header field or its length breaks the rules of HTTP/1.1; " +
		"the connection is closed, send the request anew"
}

// raw is the whole answer on a connection that ends with it.
func (f *failure) raw(now time.Time) []byte {
	body := f.object()
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\n"+
		"Date: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		f.status, http.StatusText(f.status), newRequestID(now), now.UTC().Format(http.TimeFormat), len(body), body)
}
