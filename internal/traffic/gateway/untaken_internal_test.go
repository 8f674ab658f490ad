package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// greedless is an HTTP/2 caller that asks and takes nothing of the answers.
type greedless struct {
	conn   net.Conn
	mu     sync.Mutex // guards what is written
	framer *http2.Framer
	next   uint32
	heads  atomic.Int64 // answers that have begun
	resets atomic.Int64
	gone   chan struct{}
}

func newGreedless(t *testing.T, address string) *greedless {
	t.Helper()
	return greedlessFrom(t, "127.0.0.1", address)
}

// greedlessFrom calls from that address of this machine.
func greedlessFrom(t *testing.T, from, address string) *greedless {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return greedlessOn(t, conn)
}

func greedlessOn(t *testing.T, conn net.Conn) *greedless {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	var err error
	g := &greedless{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, gone: make(chan struct{})}
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, g.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})); err != nil {
		t.Fatal(err)
	}
	go g.read()
	return g
}

// read answers pings, as an honest machine does, and counts the streams that
// the server ends.
func (g *greedless) read() {
	defer close(g.gone)
	for {
		f, err := g.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			g.heads.Add(1)
		case *http2.RSTStreamFrame:
			g.resets.Add(1)
		case *http2.PingFrame:
			g.mu.Lock()
			_ = g.framer.WritePing(true, f.Data)
			g.mu.Unlock()
		}
	}
}

// takes makes it an honest one: it takes all that comes from now on.
func (g *greedless) takes(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := errors.Join(g.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}), g.framer.WriteWindowUpdate(0, 1<<20)); err != nil {
		t.Fatal(err)
	}
}

func (g *greedless) ask(t *testing.T, path string, more ...[2]string) {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range append([][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "m"}, {":path", path}}, more...) {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: g.next, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	g.next += 2
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", what)
		}
	}
}

// untakenServer answers at once, or as a stream that goes on.
func untakenServer(t *testing.T, limit time.Duration, most int) (address string, running *atomic.Int64, u *untaken) {
	t.Helper()
	running = &atomic.Int64{}
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		AnswerFor(r.Context(), r.Header.Get("Tenant"))
		_, err := io.WriteString(w, "hello")
		for strings.HasPrefix(r.URL.Path, "/stream") && err == nil {
			if err = http.NewResponseController(w).Flush(); err == nil {
				_, err = io.WriteString(w, strings.Repeat("a", 1000))
			}
		}
	}))
	s.untaken.limit, s.untaken.most, s.untaken.strange = limit, most, most
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return listener.Addr().String(), running, s.untaken
}

func (u *untaken) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.answers)
}

// An answer of which its caller takes nothing ends, whether its handler is done
// or writes, and so do its handler and what it holds. Another caller's does not.
func TestUntakenAnswersEnd(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/short", "/stream"} {
		address, running, u := untakenServer(t, 100*time.Millisecond, 1000)
		g := newGreedless(t, address)
		for range 20 {
			g.ask(t, path)
		}
		waitFor(t, "the end of all answers to "+path, func() bool { return g.resets.Load() == 20 && running.Load() == 0 && u.count() == 0 })
		g.ask(t, path)
		waitFor(t, "the end of one more", func() bool { return g.resets.Load() == 21 && u.count() == 0 })
	}
}

// A caller that takes its answer gets all of it, however long that takes.
func TestTakenAnswersGoOn(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]int{"HTTP/1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, running, u := untakenServer(t, unheardLimit, 1)
			p := new(http.Protocols)
			p.SetHTTP1(version == 1)
			p.SetUnencryptedHTTP2(version == 2)
			client := http.Client{Transport: &http.Transport{Protocols: p}}
			t.Cleanup(client.CloseIdleConnections)
			answer, err := client.Get("http://" + address + "/stream")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			piece := make([]byte, 64<<10)
			for until := time.Now().Add(unheardLimit + time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
				if _, err := io.ReadFull(answer.Body, piece); err != nil {
					t.Fatalf("the stream ended: %v", err)
				}
			}
			if answer.ProtoMajor != version || running.Load() != 1 || u.count() != version-1 {
				t.Errorf("%s: %d run, %d answers are known", answer.Proto, running.Load(), u.count())
			}
		})
	}
}

// Where strangers have too many answers that wait, the address with most of them
// loses its oldest, and no tenant any.
func TestTooManyAnswersToStrangers(t *testing.T) {
	t.Parallel()
	address, running, u := untakenServer(t, time.Hour, 50)
	few, many, tenant := greedlessFrom(t, "127.0.0.2", address), newGreedless(t, address), newGreedless(t, address)
	for range 10 {
		few.ask(t, "/stream")
		tenant.ask(t, "/stream", [2]string{"tenant", "team-a"})
	}
	for i := range 80 {
		many.ask(t, []string{"/stream", "/short"}[i%2])
	}
	waitFor(t, "the end of what is too much", func() bool {
		return many.resets.Load() >= 40 && u.count() <= 10+50 && running.Load() >= 20
	})
	for range 60 { // the search is made again for what comes later
		many.ask(t, "/stream")
	}
	waitFor(t, "the end of the rest", func() bool { return many.resets.Load() >= 100 && u.count() <= 10+50 })
	if few.resets.Load() != 0 || tenant.resets.Load() != 0 {
		t.Errorf("%d answers of another address and %d of a tenant ended", few.resets.Load(), tenant.resets.Load())
	}
}

// Where tenants have too many, the one with most of them loses its oldest.
func TestTooManyAnswersToTenants(t *testing.T) {
	t.Parallel()
	address, running, u := untakenServer(t, time.Hour, 50)
	few, many := newGreedless(t, address), newGreedless(t, address)
	for range 20 {
		few.ask(t, "/stream", [2]string{"tenant", "team-a"})
	}
	for range 60 {
		many.ask(t, "/stream", [2]string{"tenant", "team-b"})
	}
	waitFor(t, "the end of what is too much", func() bool { return many.resets.Load() == 30 && running.Load() == 50 && u.count() == 50 })
	if few.resets.Load() != 0 {
		t.Errorf("%d answers of the other tenant ended", few.resets.Load())
	}
}
