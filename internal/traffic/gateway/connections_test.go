package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic/gateway"
)

// Who connects while as many are connected as may be is turned away at once;
// those who are there are served on, and one who leaves makes room.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			var log lockedText
			bound, err := gateway.NewConnections(gateway.ConnectionBounds{Most: 2, LeastIdle: time.Hour}, slog.New(slog.NewTextHandler(&log, nil)), registry)
			if err != nil {
				t.Fatal(err)
			}
			address, dial, _ := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }), secured, bound)

			first := dial()
			asks(t, first)
			second := dial()
			asks(t, second)
			third, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = third.Close() }()
			_ = third.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := third.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("the third read %d bytes, %v", n, err)
			}
			asks(t, first)
			_ = second.Close()
			eventually(t, "room for one", func() bool { return figure(t, registry, "modeldock_http_connections") == 1 })
			asks(t, dial())
			if n := figure(t, registry, "modeldock_http_connections_refused_total"); n != 1 {
				t.Errorf("%v refused", n)
			}
			if !strings.Contains(log.String(), "--max-connections") || !strings.Contains(log.String(), "open=2") {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// Where as many are connected as may be, who has had no request for the
// longest goes for who comes, also if it never had one; who has one stays.
func TestTheLongestIdleGoes(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			bound, err := gateway.NewConnections(gateway.ConnectionBounds{Most: 3, LeastIdle: time.Nanosecond}, slog.New(slog.DiscardHandler), registry)
			if err != nil {
				t.Fatal(err)
			}
			begun, goOn := make(chan struct{}), make(chan struct{})
			_, dial, _ := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					close(begun)
					<-goOn
				}
				_, _ = io.WriteString(w, "served")
			}), secured, bound)
			busy := dial()
			_, _ = io.WriteString(busy, "GET /long HTTP/1.1\r\nHost: gateway\r\n\r\n")
			<-begun
			askAndRest := func(c net.Conn) { // the server is through with it a little after its answer
				asks(t, c)
				eventually(t, "the connections to rest", func() bool { return figure(t, registry, "modeldock_http_connections_idle") == 2 })
			}
			silent := dial()
			used := dial()
			askAndRest(used)
			second := dial()
			askAndRest(second)
			isClosed(t, silent)
			askAndRest(used)
			askAndRest(dial())
			isClosed(t, second) // it was used before used was used again
			askAndRest(dial())
			isClosed(t, used)
			close(goOn)
			if got := readResult(t, bufio.NewReader(busy)); got.body != "served" {
				t.Errorf("the busy one got %d %q", got.status, got.body)
			}
			if closed, refused := figure(t, registry, "modeldock_http_connections_closed_idle_total"), figure(t, registry, "modeldock_http_connections_refused_total"); closed != 3 || refused != 0 {
				t.Errorf("%v closed and %v refused", closed, refused)
			}
		})
	}
}

func isClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v", n, err)
	}
}

// elsewhere makes connections come from an address that the test says.
type elsewhere struct {
	net.Listener
	addr chan string
}

type elsewhereConn struct {
	net.Conn
	addr net.Addr
}

func (c elsewhereConn) RemoteAddr() net.Addr { return c.addr }

func (l elsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return elsewhereConn{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(<-l.addr))}, nil
}

// One address has a quarter of all connections at most, but loopback and
// proxies, whose connections are many people's.
func TestOneAddressHasAQuarter(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	var log lockedText
	bound, err := gateway.NewConnections(gateway.ConnectionBounds{
		Most: 8, LeastIdle: time.Hour, Proxies: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
	}, slog.New(slog.NewTextHandler(&log, nil)), registry)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := elsewhere{inner, make(chan string, 1)}
	server := gateway.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	server.Connections = bound
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	from := func(addr string) net.Conn {
		l.addr <- addr
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	first := from("192.0.2.1:1")
	asks(t, first)
	asks(t, from("192.0.2.1:2"))
	isClosed(t, from("192.0.2.1:3"))
	asks(t, from("192.0.2.2:1"))
	_ = first.Close()
	eventually(t, "the first to be gone", func() bool { return figure(t, registry, "modeldock_http_connections") == 2 })
	asks(t, from("192.0.2.1:4"))
	asks(t, from("[2001:db8::1]:1"))
	asks(t, from("[2001:db8::2]:1"))
	isClosed(t, from("[2001:db8::3]:1")) // the same network
	for range 3 {
		asks(t, from("10.1.2.3:1"))
	}
	if !strings.Contains(log.String(), "--proxies") {
		t.Errorf("the log says %q", log.String())
	}
}

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// asks makes one request and reads its answer.
func asks(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := readResult(t, bufio.NewReader(c)); got.status != 200 || got.body != "served" {
		t.Fatalf("answered %d %q", got.status, got.body)
	}
}

// figure is the value of a metric without labels.
func figure(t *testing.T, from *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("%s is not exported", name)
	return 0
}
