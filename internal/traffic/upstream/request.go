package upstream

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// Request is one POST.
type Request struct {
	Address string // host:port
	User    int    // of this machine, whose process must answer; 0: whoever does
	Path    string
	Header  http.Header // without Host, Content-Length and what is for one hop
	Body    [][]byte    // one piece after the other
	Length  int64       // of all pieces
	// Sent is called once for each Do, as soon as Body is not read any more,
	// with whether the system has taken all of it: maybe by another goroutine,
	// and after Do has returned.
	Sent func(all bool)
}

// frame is what a request is written from.
type frame struct {
	head  []byte
	parts [][]byte
	out   net.Buffers // parts, while they are written
}

// copied is how much of a head and its body is made one piece: less than that
// is copied faster than described to the system.
const copied = 4 << 10

// write sends the whole request and returns how much the system took.
func (p *Pool) write(c *conn, r *Request) (int64, error) {
	f, _ := p.frames.Get().(*frame)
	if f == nil {
		f = new(frame)
	}
	defer func() {
		clear(f.parts[:cap(f.parts)])
		f.out = nil
		p.frames.Put(f)
	}()
	f.head = appendHead(f.head[:0], r)
	if int64(len(f.head))+r.Length <= copied {
		for _, piece := range r.Body {
			f.head = append(f.head, piece...)
		}
		n, err := c.socket.Write(f.head)
		return int64(n), wrapWrite(err)
	}
	f.parts = append(append(f.parts[:0], f.head), r.Body...)
	f.out = f.parts
	n, err := f.out.WriteTo(c.socket)
	return n, wrapWrite(err)
}

func wrapWrite(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write to the engine: %w", err)
}

func appendHead(b []byte, r *Request) []byte {
	b = append(append(append(b, "POST "...), r.Path...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, r.Address...), "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, r.Length, 10), "\r\n"...)
	for name, values := range r.Header {
		for _, value := range values {
			b = append(appendText(b, name), ": "...)
			b = append(appendText(b, value), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// appendText keeps a line one line, whoever made it.
func appendText(b []byte, text string) []byte {
	from := len(b)
	b = append(b, text...)
	for i := from; i < len(b); i++ {
		if b[i] == '\r' || b[i] == '\n' || b[i] == 0 {
			b[i] = ' '
		}
	}
	return b
}
