package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

// decoded reads a body that comes in steps of at most so many bytes, into
// buffers of another size.
func decoded(raw string, ahead, step, buffer int) (string, *chunks, error) {
	ahead = min(ahead, len(raw))
	c := &chunks{ahead: []byte(raw[:ahead]), source: &stepped{strings.NewReader(raw[ahead:]), step}}
	var out bytes.Buffer
	for {
		p := make([]byte, buffer)
		n, err := c.Read(p)
		out.Write(p[:n])
		if errors.Is(err, io.EOF) {
			return out.String(), c, nil
		}
		if err != nil {
			return out.String(), c, err
		}
	}
}

type stepped struct {
	io.Reader
	step int
}

func (s *stepped) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.step)]) }

func TestChunks(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"5\r\nhello\r\n0\r\n\r\n": "hello",
		"0\r\n\r\n":               "",
		"1\r\nh\r\n4;a=b\r\nello\r\n000\r\nX: y\r\n\r\n": "hello",
		"A\r\n0123456789\r\na \r\n9876543210\r\n0\r\n\n": "01234567899876543210",
		"2\r\nhi\r\n0\r\nA: b\nC: d\r\n\r\n":             "hi",
		"b\r\n\r\n0\r\n\r\n5\r\nx\r\n0\r\n\r\n":          "\r\n0\r\n\r\n5\r\nx",
	}
	for raw, want := range good {
		for _, step := range []int{1, 2, 3, 1000} {
			for _, buffer := range []int{1, 3, 1000} {
				for ahead := range 4 {
					got, c, err := decoded(raw, ahead, step, buffer)
					if err != nil || got != want || c.extra {
						t.Errorf("%q by %d into %d: %q, %v", raw, step, buffer, got, err)
					}
				}
			}
		}
	}
	for _, raw := range []string{
		"", "5", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: y\r\n", // cut
		"\r\n", "x\r\n", "2\nhi\r\n0\r\n\r\n", "2;a\nhi\r\n0\r\n\r\n", "-1\r\n", "5 5\r\nhello 0\r\n", "0 0\r\n\r\n", "5 ;a\r\nhello\r\n0\r\n\r\n", "5\rhello", "5\r\nhelloworld", "5\r\nhello\n0\r\n\r\n", "1000000000000\r\n", // wrong
		"5;" + strings.Repeat("a", 100<<10) + "\r\nhello\r\n0\r\n\r\n",
	} {
		if got, _, err := decoded(raw, 0, 7, 9); err == nil {
			t.Errorf("%.40q is taken for %q", raw, got)
		}
	}
	if got, c, err := decoded("2\r\nhi\r\n0\r\n\r\nHTTP/1.1", 0, 100, 100); err != nil || got != "hi" || !c.extra {
		t.Errorf("%q, %v, extra %t", got, err, c.extra)
	}
}

// FuzzChunks: what net/http decodes, and this does, has the same data.
func FuzzChunks(f *testing.F) {
	f.Add("5\r\nhello\r\n0\r\n\r\n", uint8(3), uint8(2))
	f.Add("1\r\nh\r\n4;a=b\r\nello\r\n0\r\nX: y\r\n\r\n", uint8(1), uint8(1))
	f.Add("0 0\r\n00000000\n\n", uint8(0), uint8(1))
	f.Add("a\r\n0123456789\r\n0\r\n\r\nextra", uint8(200), uint8(200))
	f.Fuzz(func(t *testing.T, raw string, step, buffer uint8) {
		got, _, err := decoded(raw, int(step)/2, int(step)+1, int(buffer)+1)
		oracle, wrong := io.ReadAll(httputil.NewChunkedReader(iotest.DataErrReader(strings.NewReader(raw))))
		if err == nil && wrong == nil && got != string(oracle) {
			t.Errorf("%q: got %q, net/http %q", raw, got, oracle)
		}
		if err == nil && wrong != nil && !strings.Contains(fmt.Sprint(wrong), "unexpected EOF") && !strings.Contains(fmt.Sprint(wrong), "too long") && !strings.Contains(fmt.Sprint(wrong), "too much overhead") {
			t.Errorf("%q: got %q, net/http says %v", raw, got, wrong)
		}
	})
}
