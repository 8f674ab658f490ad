package gateway_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic/gateway"
)

// serving starts a server for handler, with TLS or without, and returns how to
// reach it.
func serving(t *testing.T, handler http.Handler, secured bool, bound ...*gateway.Connections) (address string, dial func() net.Conn, roots *x509.CertPool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := gateway.NewServer(handler)
	for _, b := range bound {
		server.Connections = b
	}
	t.Cleanup(func() { _ = server.Close() })
	address, roots = listener.Addr().String(), x509.NewCertPool()
	if secured {
		other := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
		t.Cleanup(other.Close)
		roots.AddCert(other.Certificate())
		server.TLSConfig = &tls.Config{Certificates: other.TLS.Certificates, MinVersion: tls.VersionTLS12}
		go func() { _ = server.ServeTLS(listener) }()
	} else {
		go func() { _ = server.Serve(listener) }()
	}
	return address, func() net.Conn {
		t.Helper()
		var conn net.Conn
		var err error
		if secured {
			conn, err = (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", address)
		} else {
			conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		return conn
	}, roots
}

// readResult reads one answer off a connection.
func readResult(t *testing.T, from *bufio.Reader) result {
	t.Helper()
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return result{status: answer.StatusCode, header: answer.Header, body: string(text), err: err}
}

// TestNoRequestIsAnsweredInShape is C075 for what never reaches a handler: the
// HTTP server's own refusals.
func TestNoRequestIsAnsweredInShape(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n"
	cases := []struct {
		name, sent string
		status     int
		code, says string
	}{
		{"header of 200 KiB", head + "X-Big: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", 431, "header_too_large", "65536 bytes"},
		{"no HTTP at all", "hello, is there anybody?\r\n\r\n", 400, "malformed_request", "first line"},
		{"no Host", "GET /v1/models HTTP/1.1\r\n\r\n", 400, "malformed_request", "missing required Host header"},
		{"two hosts", head + "Host: other\r\n\r\n", 400, "malformed_request", "valid HTTP"},
		{"a Host that is none", "GET /v1/models HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed_request", "malformed Host header"},
		{"space before the colon", head + "X-A : b\r\n\r\n", 400, "malformed_request", "valid HTTP"},
		{"a control character", head + "X-A: b\x01c\r\n\r\n", 400, "malformed_request", "a header field"},
		{"a length that is no number", head + "Content-Length: many\r\n\r\n", 400, "malformed_request", "length"},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "malformed_request", "length"},
		{"a coding that nobody knows", head + "Transfer-Encoding: gzip\r\n\r\n" + strings.Repeat("z", 100<<10), 501, "unsupported_transfer_encoding", "chunked"},
		{"a version to come", "GET /v1/models HTTP/7.0\r\nHost: gateway\r\n\r\n", 505, "unsupported_http_version", "HTTP/1.1"},
		{"an expectation that nobody knows", head + "Expect: wonders\r\nContent-Length: 2\r\n\r\n{}", 417, "expectation_failed", "100-continue"},
	}
	for _, secured := range []bool{false, true} {
		b := setup(t)
		_, dial, _ := serving(t, b.gateway, secured)
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s, TLS=%t", c.name, secured), func(t *testing.T) {
				t.Parallel()
				conn := dial()
				go func() { _, _ = io.WriteString(conn, c.sent) }() // the server may stop reading
				reader := bufio.NewReader(conn)
				got := readResult(t, reader)
				e := errorOf(t, got)
				if got.err != nil || got.status != c.status || e.Code != c.code || !strings.Contains(got.body, c.says) {
					t.Errorf("%d %v %v, want %d %s: %s", got.status, e.Code, got.err, c.status, c.code, got.body)
				}
				if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
					t.Errorf("header %v", got.header)
				}
				if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
					t.Errorf("after the refusal: %q, %v", rest, err)
				}
			})
		}
	}
}

// TestServerWideOptions: an asterisk is no endpoint either.
func TestServerWideOptions(t *testing.T) {
	t.Parallel()
	_, dial, _ := serving(t, setup(t).gateway, false)
	conn := dial()
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: gateway\r\n\r\n")
	if got := readResult(t, bufio.NewReader(conn)); got.status != 404 || errorOf(t, got).Code != "unknown_url" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestRefusalAfterAnswers: what is not valid may follow what was.
func TestRefusalAfterAnswers(t *testing.T) {
	t.Parallel()
	for _, secured := range []bool{false, true} {
		b := setup(t)
		b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
		_, dial, _ := serving(t, b.gateway, secured)
		conn := dial()
		good := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", keyA, len(helloChat), helloChat)
		_, _ = io.WriteString(conn, good+good+"nonsense\r\n\r\n") // without waiting for the answers
		reader := bufio.NewReader(conn)
		for range 2 {
			if got := readResult(t, reader); got.status != 200 || got.body != wholeChat {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		if got := readResult(t, reader); got.status != 400 || errorOf(t, got).Code != "malformed_request" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// TestAnswersMayLookLikeRefusals: what an engine says passes as it is, though
// it reads like the server's own words at every place where a write may begin.
func TestAnswersMayLookLikeRefusals(t *testing.T) {
	t.Parallel()
	const canned = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	for _, known := range []bool{true, false} {
		for shift := range len("HTTP/1.1") {
			_, dial, _ := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if known {
					w.Header().Set("Content-Length", fmt.Sprint(shift+500*len(canned)))
				}
				_, _ = io.WriteString(w, strings.Repeat("-", shift))
				_ = http.NewResponseController(w).Flush()
				for range 500 {
					_, _ = io.WriteString(w, canned)
					_ = http.NewResponseController(w).Flush()
				}
			}), false)
			conn := dial()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
			got := readResult(t, bufio.NewReader(conn))
			if want := strings.Repeat("-", shift) + strings.Repeat(canned, 500); got.err != nil || got.body != want {
				t.Fatalf("known=%t, shift %d: %d bytes, %v", known, shift, len(got.body), got.err)
			}
		}
	}
}

// TestPlainHTTPOnTLS: who forgot the s is told.
func TestPlainHTTPOnTLS(t *testing.T) {
	t.Parallel()
	address, _, _ := serving(t, setup(t).gateway, true)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n{}")
	if got := readResult(t, bufio.NewReader(conn)); got.status != 400 || errorOf(t, got).Code != "tls_required" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestRequestsKnowTheirTLS: handlers see how the connection was secured, by
// either protocol, and a handshake that never ends holds up nobody.
func TestRequestsKnowTheirTLS(t *testing.T) {
	t.Parallel()
	address, _, roots := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, r.Proto)
	}), true)
	for range 5 {
		silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = silent.Close() })
	}
	for proto, want := range map[string]string{"http/1.1": "HTTP/1.1", "h2": "HTTP/2.0"} {
		p := new(http.Protocols)
		p.SetHTTP1(proto == "http/1.1")
		p.SetHTTP2(proto == "h2")
		client := &http.Client{Transport: &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
		answer, err := client.Get("https://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		client.CloseIdleConnections()
		if answer.StatusCode != http.StatusOK || string(text) != want {
			t.Errorf("%s: %d %s", proto, answer.StatusCode, text)
		}
	}
}
