package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// TestColdModelIsFlooded is C124: very many call a model that never becomes
// ready, and a few a warm one. What is beyond the waiting room's bound is
// refused at once, what waits is told when its time is up, the warm model is
// served all the while, and in the end nothing is left of it. It counts
// goroutines and descriptors, so it runs alone.
func TestColdModelIsFlooded(t *testing.T) { //nolint:paralleltest // see above
	const bound, patience = 100, 2 * time.Second
	b := setup(t)
	b.publish(func(s *traffic.Snapshot) {
		cold := model("team-a", "cold", "v1")
		cold.MaxWaiting, cold.WaitTimeout = bound, patience
		s.Models = append(s.Models, cold)
	})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
	b.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 200
	if got := b.chat(keyA, helloChat); got.status != 200 {
		t.Fatalf("warm: %d %s", got.status, got.body)
	}
	b.client.CloseIdleConnections()
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)

	var full, late, warm atomic.Int64
	var flood, calm sync.WaitGroup
	var over atomic.Bool
	calm.Go(func() {
		for !over.Load() {
			if got := b.chat(keyA, helloChat); got.status != 200 {
				t.Errorf("the warm model: %d %s", got.status, got.body)
			}
			warm.Add(1)
			time.Sleep(10 * time.Millisecond) // its caller's pace
		}
	})
	var next atomic.Int64
	for range 200 { // callers at once, each with another request as soon as it is refused
		flood.Go(func() {
			for next.Add(1) <= floodOfCold {
				got := b.chat(keyA, strings.Replace(helloChat, "m1", "cold", 1))
				after, err := strconv.Atoi(got.header.Get("Retry-After"))
				switch e := errorOf(t, got); {
				case err != nil || after < 1 || after > 120:
					t.Errorf("%d with Retry-After %q", got.status, got.header.Get("Retry-After"))
				case got.status == http.StatusTooManyRequests && e.Code == "waiting_room_full":
					full.Add(1)
				case got.status == http.StatusServiceUnavailable && e.Code == "model_loading":
					late.Add(1)
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	flood.Wait()
	over.Store(true)
	calm.Wait()
	t.Logf("%d refused at once, %d waited in vain, %d answers of the warm model meanwhile", full.Load(), late.Load(), warm.Load())
	if full.Load() == 0 || late.Load() < bound || warm.Load() < 2 || full.Load()+late.Load() != floodOfCold {
		t.Errorf("%d refused at once, %d waited in vain, %d answers of the warm model", full.Load(), late.Load(), warm.Load())
	}
	b.client.CloseIdleConnections()
	eventually(t, "goroutines and descriptors to be back", func() bool {
		return b.waiting("cold") == 0 && runtime.NumGoroutine() <= goroutines+4 && openFiles(t) <= descriptors+4
	})
}

// openFiles counts this process's descriptors, where the system shows them.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestSlowCallers is C096 for what callers send, scaled: a header has to be
// complete in time, a body may take as long as it takes.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const limit = 2 * time.Second
	server := gateway.NewServer(b.gateway)
	if server.ReadHeaderTimeout <= 0 || server.ReadHeaderTimeout > 30*time.Second || server.ReadTimeout != 0 {
		t.Errorf("a header may take %s, a request %s", server.ReadHeaderTimeout, server.ReadTimeout)
	}
	server.ReadHeaderTimeout = limit
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	half := dial()
	_, _ = io.WriteString(half, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n")
	slow := dial()
	_, _ = fmt.Fprintf(slow, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", keyA, len(helloChat))
	// When the one is cut, the other's limit is over as well.
	_ = half.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(half); err != nil {
		t.Errorf("half a header was not cut after %s: %v", limit, err)
	}
	_, _ = io.WriteString(slow, helloChat)
	if got := readResult(t, bufio.NewReader(slow)); got.status != 200 || got.body != wholeChat {
		t.Errorf("after a slow upload: %d %s", got.status, got.body)
	}
}
