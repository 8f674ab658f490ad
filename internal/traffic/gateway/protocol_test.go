package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// expecting sends a request's head with Expect: 100-continue and returns the
// connection's next status line.
func (b *bench) expecting(key string, length int) (first string, rest *bufio.Reader, conn net.Conn) {
	b.t.Helper()
	conn, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", key, length)
	if err != nil {
		b.t.Fatal(err)
	}
	rest = bufio.NewReader(conn)
	first, err = rest.ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(first), rest, conn
}

// TestExpectContinue: a body that will not be read is not asked for.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.MaxBody = 1 << 20 })
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			t.Error("Expect reached the engine")
		}
		_, _ = io.WriteString(w, wholeChat)
	})
	if got, _, _ := b.expecting("mdk_aaaa_wrong", len(helloChat)); !strings.HasPrefix(got, "HTTP/1.1 401 ") {
		t.Errorf("wrong key: %q", got)
	}
	if got, _, _ := b.expecting(keyA, 2<<20); got != "HTTP/1.1 413 Request Entity Too Large" {
		t.Errorf("too large: %q", got)
	}
	got, rest, conn := b.expecting(keyA, len(helloChat))
	if got != "HTTP/1.1 100 Continue" {
		t.Fatalf("allowed: %q", got)
	}
	_, _ = rest.ReadString('\n')
	_, _ = io.WriteString(conn, helloChat)
	answer, err := http.ReadResponse(rest, nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("after the body: %v %+v", err, answer)
	}
	_ = answer.Body.Close()
}

// endless hides its length, so that it is sent in chunks.
type endless struct{ io.Reader }

// TestChunkedBody: a body of unknown length has the same limit.
func TestChunkedBody(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.MaxBody = 1 << 20 })
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || r.ContentLength < 0 {
			t.Errorf("the engine got a body of unknown length: %v", r.TransferEncoding)
		}
		_, _ = io.WriteString(w, wholeChat)
	})
	for name, c := range map[string]struct {
		body   string
		status int
	}{"small": {helloChat, 200}, "too large": {`{"model":"m1","x":"` + strings.Repeat("x", 1<<20), 413}, "torn": {helloChat[:20], 400}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions", endless{strings.NewReader(c.body)})
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+keyA)
		answer, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
}

// http2 makes the bench's client speak HTTP/2, with TLS or without.
func (b *bench) http2(secured bool) {
	b.t.Helper()
	p := new(http.Protocols)
	if !secured {
		p.SetUnencryptedHTTP2(true)
		b.client = &http.Client{Transport: &http.Transport{Protocols: p, DisableCompression: true}}
		return
	}
	p.SetHTTP2(true)
	other := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	b.t.Cleanup(other.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	server := gateway.NewServer(b.gateway)
	server.TLSConfig = &tls.Config{Certificates: other.TLS.Certificates, MinVersion: tls.VersionTLS12}
	go func() { _ = server.ServeTLS(listener) }()
	b.t.Cleanup(func() { _ = server.Close() })
	b.url = "https://" + listener.Addr().String()
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	b.client = &http.Client{Transport: &http.Transport{
		Protocols: p, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// TestHTTP2: what holds for HTTP/1.1 holds for HTTP/2; engines see HTTP/1.1.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"TLS": true, "h2c": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.http2(secured)
			t.Cleanup(func() { b.client.CloseIdleConnections() })
			left := make(chan struct{})
			e := b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.ProtoMajor != 1:
					t.Errorf("the engine got %s", r.Proto)
				case strings.Contains(string(body), "stay"):
					events(chunkEvent("a"))(w, r)
					<-r.Context().Done()
					close(left)
				case strings.Contains(string(body), "cut"):
					events(chunkEvent("a"))(w, r)
					panic(http.ErrAbortHandler)
				case strings.Contains(string(body), `"stream":true`):
					events(chunkEvent("a"), stopEvent, doneEvent)(w, r)
				default:
					_, _ = io.WriteString(w, wholeChat)
				}
			})
			if got := b.chat(keyA, helloChat); got.status != 200 || got.body != wholeChat {
				t.Errorf("whole: %d %q", got.status, got.body)
			}
			if got := b.chat("", helloChat); got.status != 401 || errorOf(t, got).Code != "missing_api_key" {
				t.Errorf("no key: %d", got.status)
			}
			if got := b.chat(keyA, strings.Replace(helloStream, "hi", "cut", 1)); got.err == nil || !strings.HasPrefix(got.body, chunkEvent("a")+`data: {"error":`) {
				t.Errorf("cut: %q, %v: want an error event and a broken stream", got.body, got.err)
			}
			b.manyAtOnce(chunkEvent("a") + stopEvent + doneEvent)
			b.leaveAfterFirst(strings.Replace(helloStream, "hi", "stay", 1))
			<-left
			eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
		})
	}
}

// manyAtOnce sends streams together, which share a connection.
func (b *bench) manyAtOnce(want string) {
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got := b.chat(keyA, helloStream); got.body != want || got.err != nil {
				b.t.Errorf("stream: %d %q %v", got.status, got.body, got.err)
			}
		})
	}
	all.Wait()
}

// leaveAfterFirst reads the beginning of a stream and leaves.
func (b *bench) leaveAfterFirst(body string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	answer, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if answer.ProtoMajor != 2 {
		b.t.Errorf("the answer came by %s", answer.Proto)
	}
	if _, err = io.ReadFull(answer.Body, make([]byte, len(chunkEvent("a")))); err != nil {
		b.t.Fatal(err)
	}
	id := answer.Header.Get("X-Request-Id")
	cancel()
	if _, err = io.ReadAll(answer.Body); !errors.Is(err, context.Canceled) {
		b.t.Errorf("reading on: %v", err)
	}
	_ = answer.Body.Close()
	if r := b.record(id); r.Outcome != traffic.ClientCancelled {
		b.t.Errorf("record %+v", r)
	}
}
