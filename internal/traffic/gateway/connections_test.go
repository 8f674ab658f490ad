package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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
			bound, err := gateway.NewConnections(2, slog.New(slog.NewTextHandler(&log, nil)), registry)
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
