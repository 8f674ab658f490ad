package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic/gateway"
)

// upload opens a connection and sends a request's head and the beginning of
// its body.
func (b *bench) upload(key string, length int, begin string) net.Conn {
	b.t.Helper()
	conn, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	framing := "Content-Length: " + strconv.Itoa(length)
	if length < 0 {
		framing = "Transfer-Encoding: chunked"
		begin = fmt.Sprintf("%x\r\n%s\r\n", len(begin), begin)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", key, framing, begin); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

func (b *bench) bodyBytes() int {
	b.t.Helper()
	return int(b.metrics("modeldock_gateway_body_bytes")[""])
}

// TestBodiesAreBoundedInMemory: many callers of one tenant send large bodies
// and stall before the end. What they hold is bounded, no other tenant
// notices, and all of it comes back.
func TestBodiesAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	for name, length := range map[string]int{"announced": large, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *gateway.Config) {
				cfg.MaxBody, cfg.BodyMemory, cfg.Pace.Grace = large, 8*large, time.Hour
			})
			b.echo("team-a", "m1", "v1")
			b.echo("team-b", "m2", "v1")
			begin := `{"model":"m2","x":"` + strings.Repeat("a", large-200)
			var stalled []net.Conn
			for n := 1; n <= 4; n++ { // half of the room
				stalled = append(stalled, b.upload(keyB, length, begin))
				eventually(t, "the body to be held", func() bool { return b.bodyBytes() >= n*large*99/100 })
			}
			for range 8 {
				got := readResult(t, bufio.NewReader(b.upload(keyB, length, "{")))
				if e := errorOf(t, got); got.status != http.StatusTooManyRequests || e.Code != "body_memory_full" || got.header.Get("Retry-After") == "" {
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			if got := b.bodyBytes(); got > 4*large {
				t.Errorf("%d bytes are held", got)
			}
			if got := b.metrics("modeldock_gateway_limit_refusals_total")["body_memory"]; got != 8 {
				t.Errorf("%v refusals are counted", got)
			}
			if got := b.chat(keyA, helloChat); got.status != http.StatusOK {
				t.Errorf("another tenant: %d %s", got.status, got.body)
			}
			for _, conn := range stalled {
				_ = conn.Close()
			}
			eventually(t, "the room to be empty", func() bool { return b.bodyBytes() == 0 })
			if got := b.chat(keyB, strings.Replace(helloChat, "m1", "m2", 1)); got.status != http.StatusOK {
				t.Errorf("the same tenant later: %d %s", got.status, got.body)
			}
		})
	}
}

// TestBodiesStayCountedWhileTheyAreSent: an engine that reads nothing keeps the
// bodies in memory.
func TestBodiesStayCountedWhileTheyAreSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		_, _ = io.WriteString(w, wholeChat)
	})
	body := strings.Replace(helloChat, `"hi"`, `"`+strings.Repeat("a", 1<<20)+`"`, 1)
	answered := make(chan result)
	go func() { answered <- b.chat(keyA, body) }()
	eventually(t, "the body to be held", func() bool {
		select {
		case got := <-answered:
			t.Fatalf("answered early: %d %s", got.status, got.body)
		default:
		}
		return b.bodyBytes() == len(body)
	})
	close(hold)
	if got := <-answered; got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	eventually(t, "the room to be empty", func() bool { return b.bodyBytes() == 0 })
}

// TestBodiesHaveAPace: one that stalls is given up with an error that says so,
// also where nobody wants it; one that only comes slowly is not.
func TestBodiesHaveAPace(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *gateway.Config) { cfg.Pace = gateway.Pace{Grace: 4 * time.Second, Rate: 25} })
	b.echo("team-a", "m1", "v1")
	const length = 10_000
	begin := `{"model":"m1","messages":[{"role":"user","content":"`
	slow := b.upload(keyA, length, begin)                                  // a hundred bytes have six seconds
	stalled := b.upload(keyA, length, begin+strings.Repeat("a", length/2)) // it was fast before
	unwanted := b.upload("mdk_none_none", length, "{")
	filler, sent := strings.Repeat("a", 200), len(begin)
	for range 16 {
		_, _ = io.WriteString(slow, filler)
		sent += len(filler)
		time.Sleep(500 * time.Millisecond) // its pace: longer than six seconds in all
	}
	_, _ = io.WriteString(slow, strings.Repeat("a", length-sent-5)+`"}]} `)
	if got := readResult(t, bufio.NewReader(slow)); got.status != http.StatusOK {
		t.Errorf("a slow one: %d %s", got.status, got.body)
	}
	from := bufio.NewReader(stalled)
	got := readResult(t, from)
	if e := errorOf(t, got); got.status != http.StatusRequestTimeout || e.Code != "body_too_slow" {
		t.Errorf("one that stalls: %d %s", got.status, got.body)
	}
	if got := b.metrics("modeldock_gateway_limit_refusals_total")["body_pace"]; got != 1 {
		t.Errorf("%v refusals are counted", got)
	}
	if _, err := from.ReadByte(); err == nil {
		t.Error("its connection stayed")
	}
	from = bufio.NewReader(unwanted)
	if got := readResult(t, from); got.status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d %s", got.status, got.body)
	}
	if _, err := from.ReadByte(); err == nil {
		t.Error("the stranger's connection stayed")
	}
}

// A stranger who announces a body and sends none holds a connection for a
// moment, however much time those have whose key is known.
func TestStrangersHoldNoConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *gateway.Config) { cfg.Pace = gateway.Pace{Grace: time.Hour, Rate: 25} })
	conn := b.upload("mdk_none_none", 1000, "")
	from := bufio.NewReader(conn)
	if got := readResult(t, from); got.status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d %s", got.status, got.body)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("its connection ends with %v, want its end", err)
	}
}
