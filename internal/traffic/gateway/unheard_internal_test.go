package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// streamsServer echoes bodies. Its client and what it dials speak HTTP/2.
func streamsServer(t *testing.T, secured bool) (base string, client *http.Client, dial func() net.Conn) {
	t.Helper()
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || (r.TLS != nil) != secured || secured && r.TLS.NegotiatedProtocol != "h2" {
			t.Errorf("%s, TLS %+v", r.Proto, r.TLS)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := new(http.Protocols)
	client = &http.Client{Transport: &http.Transport{Protocols: p}}
	t.Cleanup(client.CloseIdleConnections)
	address := listener.Addr().String()
	if !secured {
		go func() { _ = s.Serve(listener) }()
		p.SetUnencryptedHTTP2(true)
		return "http://" + address, client, func() net.Conn { return dialled(t, new(net.Dialer), address) }
	}
	other := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(other.Close)
	s.TLSConfig = &tls.Config{Certificates: other.TLS.Certificates, MinVersion: tls.VersionTLS12}
	go func() { _ = s.ServeTLS(listener) }()
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	trusting := &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	p.SetHTTP2(true)
	client.Transport.(*http.Transport).TLSClientConfig = trusting
	own := trusting.Clone()
	own.NextProtos = []string{"h2"}
	return "https://" + address, client, func() net.Conn { return dialled(t, &tls.Dialer{Config: own}, address) }
}

func dialled(t *testing.T, d interface {
	Dial(network, address string) (net.Conn, error)
}, address string) net.Conn {
	t.Helper()
	conn, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// withAndWithoutTLS runs a test of both.
func withAndWithoutTLS(t *testing.T, f func(t *testing.T, secured bool)) {
	t.Helper()
	for name, secured := range map[string]bool{"TLS": true, "h2c": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, secured)
		})
	}
}

// A request that net/http answers by itself holds its place for seconds, if its
// caller takes nothing, and a connection has few of them.
func TestRequestsThatNoHandlerHears(t *testing.T) {
	t.Parallel()
	const asked = 30
	withAndWithoutTLS(t, func(t *testing.T, secured bool) {
		_, _, dial := streamsServer(t, secured)
		g := greedlessOn(t, dial())
		for range asked {
			g.ask(t, "/", [2]string{"te", "gzip"})
		}
		waitFor(t, "all answers and their ends", func() bool {
			ended := g.resets.Load()
			if open := g.heads.Load() - ended; open > 2*(maxUnheard+1) {
				t.Fatalf("%d are open", open)
			}
			return ended == asked
		})
		g.ask(t, "/")
		waitFor(t, "the answer to one that is heard", func() bool { return g.heads.Load() == asked+1 })
	})
}

// What net/http has ended is over, taken or refused: nobody else on the connection
// waits for it.
func TestRequestsThatEndUnheardHoldNobodyUp(t *testing.T) {
	t.Parallel()
	const asked = 900
	withAndWithoutTLS(t, func(t *testing.T, secured bool) {
		_, _, dial := streamsServer(t, secured)
		g := greedlessOn(t, dial())
		g.takes(t)
		for range asked / 3 {
			g.ask(t, "/", [2]string{"te", "gzip"})
			g.ask(t, "/%zz")
			g.ask(t, "/")
		}
		waitFor(t, "the ends of all", func() bool { return g.heads.Load() == asked*2/3 && g.resets.Load() == asked/3 })
	})
}

// Requests of which handlers hear are not held back: all of them come.
func TestRequestsThatHandlersHear(t *testing.T) {
	t.Parallel()
	withAndWithoutTLS(t, func(t *testing.T, secured bool) {
		base, client, _ := streamsServer(t, secured)
		first, err := client.Get(base) // and all others come over its connection
		if err != nil {
			t.Fatal(err)
		}
		_ = first.Body.Close()
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				text := strings.Repeat(fmt.Sprint(i), i)
				answer, err := client.Post(base, "text/plain", strings.NewReader(text))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(answer.Body)
				if _ = answer.Body.Close(); err != nil || string(got) != text {
					t.Errorf("%v: %.100q instead of %.100q", err, got, text)
				}
			})
		}
		all.Wait()
	})
}

// What travels in frames may begin like an answer of HTTP/1, wherever a piece of
// it begins.
func TestFramesThatLookLikeAnswers(t *testing.T) {
	t.Parallel()
	withAndWithoutTLS(t, func(t *testing.T, secured bool) {
		base, client, _ := streamsServer(t, secured)
		const word = "HTTP/1."
		for before := range len(word) {
			text := strings.Repeat(" ", before) + strings.Repeat(word, 10_000)
			answer, err := client.Post(base, "text/plain", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			if _ = answer.Body.Close(); err != nil || !bytes.Equal(got, []byte(text)) {
				t.Errorf("%d bytes before: %d bytes came instead of %d: %v", before, len(got), len(text), err)
			}
		}
	})
}
