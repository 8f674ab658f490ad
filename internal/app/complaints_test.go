package app

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/outage"
)

func TestComplaintsOfOneKindAreOneLine(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	said := &said{}
	l := complaintsTo(slog.New(slog.NewTextHandler(said, nil)), func() time.Time { return now })
	for i := range 150 {
		l.Printf("TLS handshake with 192.0.2.1:%d: the caller sent HTTP without TLS", i)
	}
	l.Print("http: Accept error: too many open files; retrying in 5ms")
	for range 2 {
		l.Print("http: panic serving 192.0.2.1:1: our fault")
	}
	now = now.Add(outage.RepeatEvery)
	l.Print("TLS handshake with 192.0.2.1:9: EOF")
	text := said.String()
	if n := strings.Count(text, "TLS handshake"); n != 2 || !strings.Contains(text, "EOF\" more=149") {
		t.Errorf("%d lines for 151 handshakes:\n%s", n, text)
	}
	if strings.Count(text, "Accept error") != 1 || strings.Count(text, "our fault") != 2 {
		t.Errorf("another kind is not told, or a panic only once:\n%s", text)
	}
}

// Plain HTTP to a TLS port: every stranger can do that, as often as they like.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	files := certified(t)
	r := up(t, func(o *UpOptions) { o.Manual, o.TLS = true, files })
	for i := range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		_, _ = io.Copy(io.Discard, conn) // until the server has answered and closed
		_ = conn.Close()
	}
	if n := strings.Count(r.log.String(), "TLS handshake with"); n != 1 {
		t.Errorf("%d lines for 20 calls:\n%s", n, r.log)
	}
}
