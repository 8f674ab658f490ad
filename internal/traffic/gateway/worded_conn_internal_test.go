package gateway

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// nowhere takes what is written.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkWording is what a request pays for it that its connection can word
// refusals: the handler's announcement, one write, and the end of the answer.
func BenchmarkWording(b *testing.B) {
	c := &wordedConn{Conn: nowhere{}}
	request, err := http.NewRequestWithContext(withConn(context.Background(), c), http.MethodGet, "/", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	handler := answeredBy(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	text := []byte("HTTP/1.1 200 OK\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(nil, request)
		_, _ = c.Write(text)
		connState(c, http.StateIdle)
	}
}
