package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic/upstream"
)

// engine answers each connection by script, and counts connections.
type engine struct {
	t       *testing.T
	address string
	conns   atomic.Int64
	open    atomic.Int64
}

func newEngine(t *testing.T, script func(conn net.Conn, in *bufio.Reader)) *engine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := &engine{t: t, address: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.conns.Add(1)
			e.open.Add(1)
			go func() {
				defer e.open.Add(-1)
				defer func() { _ = conn.Close() }()
				script(conn, bufio.NewReader(conn))
			}()
		}
	}()
	return e
}

// answering is an engine that reads whole requests and gives each the same
// answer.
func answering(t *testing.T, answer string) *engine {
	t.Helper()
	return newEngine(t, func(conn net.Conn, in *bufio.Reader) {
		for {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer)
		}
	})
}

func newPool(t *testing.T) *upstream.Pool {
	t.Helper()
	p := upstream.New(time.Now, nil)
	t.Cleanup(p.Close)
	return p
}

// TestOnlyTheEngineIsTold: a connection is judged once, before anything is sent
// on it, and serves the user whom it was judged for.
func TestOnlyTheEngineIsTold(t *testing.T) {
	t.Parallel()
	e, s := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), &sent{}
	var judged atomic.Int64
	p := upstream.New(time.Now, func(_ net.Conn, user int) error {
		judged.Add(1)
		if user == 3 {
			return errors.New("it is user 2's")
		}
		return nil
	})
	t.Cleanup(p.Close)
	for _, c := range []struct {
		user          int
		refused       bool
		conns, judged int64
	}{{2, false, 1, 1}, {2, false, 1, 1}, {3, true, 2, 2}, {4, false, 3, 3}, {0, false, 4, 3}, {2, false, 4, 3}} {
		r := e.request(s, "a")
		r.User = c.user
		a, err := p.Do(t.Context(), r)
		var op *net.OpError
		if c.refused != (err != nil) || c.refused && (!errors.As(err, &op) || op.Op != "dial") {
			t.Fatalf("user %d: %v", c.user, err)
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, a)
			a.End()
		}
		eventually(t, "the connection to be counted", func() bool { return e.conns.Load() == c.conns })
		if judged.Load() != c.judged {
			t.Errorf("user %d: %d connections were judged, want %d", c.user, judged.Load(), c.judged)
		}
	}
	if s.part.Load() != 1 {
		t.Errorf("%d requests were not sent, want 1", s.part.Load())
	}
}

// sent counts what a request was told about its body.
type sent struct{ all, part atomic.Int64 }

func (s *sent) tell(all bool) {
	if all {
		s.all.Add(1)
	} else {
		s.part.Add(1)
	}
}

func (e *engine) request(s *sent, body ...string) *upstream.Request {
	r := &upstream.Request{Address: e.address, Path: "/v1/chat/completions", Header: http.Header{"X-A": {"1", "2"}}, Sent: s.tell}
	for _, piece := range body {
		r.Body = append(r.Body, []byte(piece))
		r.Length += int64(len(piece))
	}
	return r
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestAnswersOfEveryForm: whatever an answer's framing, its body is read whole,
// and the connection is used again exactly where the framing allows it.
func TestAnswersOfEveryForm(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		answer, body string
		length       int64
		kept         bool
		broken       bool
	}{
		"length":            {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 5, true, false},
		"chunks":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "hello", -1, true, false},
		"trailer":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", "hello", -1, true, false},
		"nothing":           {"HTTP/1.1 204 No Content\r\n\r\n", "", 0, true, false},
		"told before":       {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 2, true, false},
		"says close":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", 2, false, false},
		"HTTP/1.0":          {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 2, false, false},
		"more than it says": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", "ok", 2, false, false},
		"another protocol":  {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "", 0, false, true},
		"no HTTP":           {"hello\r\n\r\n", "", 0, false, true},
		"two lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", "", 0, false, true},
		"endless head":      {"HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", "", 0, false, true},
		"told without end":  {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 10_000), "", 0, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, p, s := answering(t, c.answer), newPool(t), &sent{}
			for range 3 {
				a, err := p.Do(t.Context(), e.request(s, "a", "b"))
				if c.broken {
					if err == nil {
						t.Fatal("it was taken for an answer")
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(a)
				if err != nil || string(body) != c.body || a.ContentLength != c.length {
					t.Errorf("%q, %v, length %d", body, err, a.ContentLength)
				}
				a.End()
				a.End()
				if _, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("read after the end: %v", err)
				}
			}
			if kept := e.conns.Load() == 1; kept != c.kept {
				t.Errorf("%d connections for three requests", e.conns.Load())
			}
			if s.all.Load() != 3 || s.part.Load() != 0 {
				t.Errorf("told %d times that all was sent, %d times not", s.all.Load(), s.part.Load())
			}
		})
	}
}

// TestWhatIsSent: head and pieces arrive as they are, small and large, and a
// header cannot become two.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, 5 << 10, 3 << 20} {
		got := make(chan *http.Request, 1)
		var body []byte
		e := newEngine(t, func(conn net.Conn, in *bufio.Reader) {
			r, err := http.ReadRequest(in)
			if err != nil {
				t.Error(err)
				return
			}
			body, _ = io.ReadAll(r.Body)
			got <- r
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		s := &sent{}
		pieces := []string{strings.Repeat("a", size/2), strings.Repeat("b", size-size/2)}
		r := e.request(s, pieces...)
		r.Header["X-Torn"] = []string{"a\r\nX-Forged: 1"}
		a, err := newPool(t).Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		a.End()
		h := <-got
		if h.Method != http.MethodPost || h.RequestURI != "/v1/chat/completions" || h.Host != e.address || fmt.Sprint(h.Header["X-A"]) != "[1 2]" || h.Header.Get("X-Forged") != "" ||
			h.ContentLength != int64(size) || string(body) != strings.Join(pieces, "") {
			t.Errorf("%d bytes: got %+v and %d bytes", size, h, len(body))
		}
		eventually(t, "the word that all was sent", func() bool { return s.all.Load() == 1 })
	}
}

// TestClosedWhileIdle: an engine that closed the connection, or said something
// unasked, meanwhile costs nothing but a new one.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		said := make(chan struct{}, 10)
		e := newEngine(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			<-said
			_, _ = io.WriteString(conn, last)
		})
		p, s := newPool(t), &sent{}
		for n := range 5 {
			a, err := p.Do(t.Context(), e.request(s))
			if err != nil || a.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %v %+v", n, err, a)
			}
			if _, err := io.Copy(io.Discard, a); err != nil {
				t.Fatal(err)
			}
			a.End()
			said <- struct{}{}
			eventually(t, "the engine to close", func() bool { return e.open.Load() == 0 })
		}
		if e.conns.Load() != 5 {
			t.Errorf("%d connections", e.conns.Load())
		}
	}
}

// TestRefusedWhileItIsSent: an engine that answers in the midst of a large
// request, and reads no more, is heard.
func TestRefusedWhileItIsSent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := newEngine(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch")
		<-release
	})
	s := &sent{}
	a, err := newPool(t).Do(t.Context(), e.request(s, strings.Repeat("x", 64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a)
	if a.StatusCode != http.StatusRequestEntityTooLarge || string(text) != "much" || err != nil {
		t.Errorf("%d %q %v", a.StatusCode, text, err)
	}
	a.End()
	eventually(t, "the sender to give up", func() bool { return s.part.Load() == 1 })
	close(release)
	if s.all.Load() != 0 {
		t.Error("64 MiB were taken by nobody")
	}
}

// TestNobodyListens: ending an answer early, or its caller's context, closes
// the connection, at any stage.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"end", "abort", "context", "context before the answer"} {
		gone := make(chan struct{})
		began := make(chan struct{}, 1)
		e := newEngine(t, func(conn net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			if how != "context before the answer" {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			}
			began <- struct{}{}
			_, _ = in.ReadByte()
			close(gone)
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if how == "context before the answer" {
			go func() { <-began; cancel() }()
		}
		s := &sent{}
		a, err := newPool(t).Do(ctx, e.request(s, "x"))
		if (err != nil) != (how == "context before the answer") {
			t.Fatalf("%s: %v", how, err)
		}
		switch how {
		case "end":
			a.End()
		case "abort":
			a.Abort()
		case "context":
			cancel()
			if _, err := io.ReadAll(a); err == nil {
				t.Error("the answer had an end")
			}
		}
		<-gone
		if err == nil {
			a.End()
			a.Abort()
		}
		if s.all.Load() != 1 || s.part.Load() != 0 {
			t.Errorf("%s: told %d times that all was sent, %d times not", how, s.all.Load(), s.part.Load())
		}
	}
}

// TestUnreachable: the error says that no connection was made.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := &sent{}
	_, err := newPool(t).Do(t.Context(), &upstream.Request{Address: "127.0.0.1:1", Path: "/", Sent: s.tell})
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || s.part.Load() != 1 || s.all.Load() != 0 {
		t.Errorf("%v", err)
	}
}

// TestManyShareConnections: callers who leave at any moment take no connection
// from others, and nobody reads another's answer.
func TestManyShareConnections(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(conn net.Conn, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	p := newPool(t)
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					time.AfterFunc(time.Duration(i%5)*50*time.Microsecond, cancel)
				}
				s := &sent{}
				text := fmt.Sprintf("%d of %d %s", i, w, strings.Repeat("-", i*40))
				a, err := p.Do(ctx, e.request(s, text))
				if err == nil {
					var body []byte
					body, err = io.ReadAll(a)
					if err == nil && string(body) != text {
						t.Errorf("got %.40q, want %.40q", body, text)
					}
					a.End()
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if s.all.Load()+s.part.Load() != 1 {
					t.Errorf("told %d times", s.all.Load()+s.part.Load())
				}
				cancel()
			}
		})
	}
	all.Wait()
	p.Close()
	eventually(t, "all connections to be closed", func() bool { return e.open.Load() == 0 })
}

// TestIdleConnectionsEnd: by themselves, before the engine would close them.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	e, p, s := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), newPool(t), &sent{}
	var answers []*upstream.Answer
	for range 3 {
		a, err := p.Do(t.Context(), e.request(s))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	for _, a := range answers {
		if _, err := io.Copy(io.Discard, a); err != nil {
			t.Fatal(err)
		}
		a.End()
	}
	if e.open.Load() != 3 {
		t.Errorf("%d connections are kept", e.open.Load())
	}
	eventually(t, "them to be closed", func() bool { return e.open.Load() == 0 })
}

// BenchmarkDo is one request of 1 KiB and its answer, with the engine's side.
func BenchmarkDo(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		buffer := make([]byte, 64<<10)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			_, _ = conn.Write(answer)
		}
	}()
	p := upstream.New(time.Now, nil)
	defer p.Close()
	r := &upstream.Request{
		Address: listener.Addr().String(), Path: "/", Header: http.Header{}, Sent: func(bool) {},
		Body: [][]byte{bytes.Repeat([]byte("x"), 1<<10)}, Length: 1 << 10,
	}
	b.ReportAllocs()
	for b.Loop() {
		a, err := p.Do(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a)
		a.End()
	}
}
