package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// securedListener hands out connections whose TLS handshake is done. net/http
// takes them for plain ones, on which it serves HTTP/1 and HTTP/2, too; answeredBy
// tells handlers that they are not.
type securedListener struct {
	net.Listener
	config   *tls.Config
	errorLog *log.Logger // nil: the standard one
	crowd    *untaken
	accepted chan net.Conn
	failed   chan error
	closed   chan struct{}
	once     sync.Once
}

func secure(l net.Listener, config *tls.Config, errorLog *log.Logger, crowd *untaken) *securedListener {
	s := &securedListener{
		Listener: l, config: config, errorLog: errorLog, crowd: crowd,
		accepted: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}),
	}
	go s.run()
	return s
}

// run accepts until the listener is closed. An error is handed over before the
// next try: the server waits after those that may pass.
func (l *securedListener) run() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			go l.handshake(c)
			continue
		}
		select {
		case l.failed <- err:
		case <-l.closed:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (l *securedListener) handshake(c net.Conn) {
	secured := tls.Server(c, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), headerTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		l.log("TLS handshake with %s: %v", c.RemoteAddr(), refuseHandshake(c, err))
		return
	}
	state := secured.ConnectionState()
	select {
	case l.accepted <- newWordedConn(secured, &state, l.crowd):
	case <-l.closed:
		_ = secured.Close()
	}
}

var errPlainHTTP = errors.New("the caller sent HTTP without TLS")

// refuseHandshake ends a connection without TLS. Who sent HTTP is told.
func refuseHandshake(c net.Conn, err error) error {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil || !looksLikeHTTP(header.RecordHeader) {
		_ = c.Close()
		return err
	}
	plain := &wordedConn{Conn: c}
	plain.refused.Store(true)
	f := &failure{
		status: http.StatusBadRequest, kind: typeRequest, code: "tls_required",
		message: "this port speaks HTTPS, and the request came without TLS; use a URL that begins with https://",
	}
	_ = c.SetWriteDeadline(time.Now().Add(headerTimeout))
	_, _ = c.Write(f.raw(time.Now()))
	_ = plain.Close()
	return errPlainHTTP
}

// looksLikeHTTP tells the beginning of a request line from a broken record.
func looksLikeHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

func (l *securedListener) log(format string, args ...any) {
	if l.errorLog == nil {
		log.Printf(format, args...)
		return
	}
	l.errorLog.Printf(format, args...)
}

func (l *securedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also lets go of handshakes that nobody waits for any more.
func (l *securedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // a listener's errors are the system's
}
