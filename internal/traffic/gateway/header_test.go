package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestNothingPrivateReachesTheEngine is C108: engines are other people's code.
func TestNothingPrivateReachesTheEngine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := make(chan http.Header, 1)
	// What browsers obey, and what is the gateway's to say.
	unwanted := []string{
		"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Clear-Site-Data", "Nel", "Report-To", "Reporting-Endpoints", "Refresh", "Link",
		"Location", "Www-Authenticate", "Server", "Content-Disposition", "Alt-Svc", "Strict-Transport-Security", "X-Frame-Options", "X-Ratelimit-Limit-Tokens",
		"Age", "Via", "Vary", "Etag", "Set-Cookie2", "Proxy-Authenticate", "Sourcemap", "X-Modeldock-Cache", "Service-Worker-Allowed",
	}
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		h := w.Header()
		h.Set("Set-Cookie", "modeldock_session=stolen")
		h.Set("X-Modeldock-Version", "forged")
		h.Set("X-Request-Id", "forged")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("X-Engine", "1")
		h.Set("Openai-Processing-Ms", "5")
		h.Set("Cache-Control", "no-transform")
		for _, name := range unwanted {
			h.Set(name, "forged")
		}
		h.Set("Content-Security-Policy", "script-src *")
		_, _ = io.WriteString(w, wholeChat)
	})
	got := b.chat(keyA, helloChat,
		"X-Api-Key", keyA, "Api-Key", keyA, "Cookie", "session="+keyA, "Proxy-Authorization", "Basic "+keyA,
		"X-ModelDock-Tenant", "admin", "X-Modeldock-Wait", "5", "x_modeldock_tenant", "admin", "X-Modeldock_Priority", "batch", "x_forwarded_for", "1.2.3.4", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Host", "h",
		"Forwarded", "for=1.2.3.4", "X-Real-Ip", "1.2.3.4", "Connection", "X-Foo, X-Request-Id", "X-Foo", "1", "Te", "trailers",
		"Via", "1.1 proxy", "True-Client-Ip", "1.2.3.4", "Cf-Connecting-Ip", "1.2.3.4", "X-Auth-Token", keyA, "X-Authorization", keyA, "X-Amz-Security-Token", "s",
		"X-Amzn-Oidc-Data", "j", "X-Ms-Client-Principal", "p", "Authorization2", keyA, "Private-Token", keyA, "X-Client-Cert", "c", "Baggage", "user=1", "X-Own", "1", "Cache-Control", "no-store",
		"X-Request-Id", "mine", "Idempotency-Key", "i1", "X-Session-Id", "s1", "Accept", "application/json", "Traceparent", "00-1-2-01", "Openai-Project", "p")
	h := <-seen
	allowed := map[string]string{
		"Content-Type": "application/json", "Content-Length": h.Get("Content-Length"), "Accept-Encoding": "identity",
		"User-Agent": "Go-http-client/1.1", "X-Request-Id": got.header.Get("X-Request-Id"), "Idempotency-Key": "i1",
		"X-Session-Id": "s1", "Accept": "application/json", "Traceparent": "00-1-2-01", "Openai-Project": "p",
	}
	for name, values := range h {
		if want, ok := allowed[name]; !ok || len(values) != 1 || values[0] != want {
			t.Errorf("the engine got %s: %q", name, values)
		}
		delete(allowed, name)
	}
	if len(allowed) > 0 {
		t.Errorf("the engine did not get %v", allowed)
	}
	for name, want := range map[string]string{
		"Set-Cookie": "", "X-Hop": "", "Content-Security-Policy": "default-src 'none'; sandbox", "X-Modeldock-Version": "v1", "X-Engine": "",
		"Openai-Processing-Ms": "5", "Cache-Control": "no-transform",
	} {
		if v := strings.Join(got.header.Values(name), ","); v != want {
			t.Errorf("the caller got %s: %q, want %q", name, v, want)
		}
	}
	for _, name := range unwanted {
		if v := got.header.Get(name); v != "" {
			t.Errorf("the caller got %s: %q", name, v)
		}
	}
	id := got.header.Get("X-Request-Id")
	if len(id) != 30 || !strings.HasPrefix(id, "req_") {
		t.Errorf("x-request-id %q", id)
	}
	if r := b.record(id); r.ClientRequestID != "mine" {
		t.Errorf("the caller's own id was recorded as %q", r.ClientRequestID)
	}
}

// TestNothingIsSentTwice: an engine that closes a used connection on a new
// request may have begun the work, also where the caller sends an
// Idempotency-Key, which net/http takes as leave to send it again.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	requests := make(chan string, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				reader := bufio.NewReader(conn)
				for n := range 2 {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(request.Body)
					requests <- string(body)
					if n == 0 {
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(wholeChat), wholeChat)
					}
				}
			}()
		}
	}()
	b.table.Upsert(endpoint("team-a", "m1", "v1", listener.Addr().String()))
	if got := b.chat(keyA, helloChat, "Idempotency-Key", "k"); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := b.chat(keyA, helloChat, "Idempotency-Key", "k")
	if got.status != http.StatusBadGateway || got.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := len(requests); n != 2 {
		t.Errorf("two requests were sent %d times", n)
	}
}
