package gateway

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httputil"
	"testing"
)

// sink is a connection that keeps what is written.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }
func (s *sink) Read(p []byte) (int, error)  { return s.Buffer.Read(p) }

func TestFrames(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		space := make([]byte, frameHead+1+random.IntN(1<<17)+frameTail)
		window := framed(space)
		for i := range window {
			window[i] = byte(random.Uint32())
		}
		before := bytes.Clone(window)
		out := &sink{}
		f := frames{conn: out, space: space}
		var want []byte
		for at := 0; at < len(window); {
			from := at + random.IntN(len(window)-at)
			to := from + 1 + random.IntN(len(window)-from)
			want = append(want, before[from:to]...)
			if err := f.write(from, to); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(window[from:], before[from:]) {
				t.Fatalf("a frame of window[%d:%d] changed what it sent or what lies behind it", from, to)
			}
			at = to
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(io.MultiReader(out, bytes.NewReader([]byte("0\r\n\r\n")))))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes arrived of %d, or others: %v", len(got), len(want), err)
		}
	}
}
