package gateway

import (
	"net"
	"net/http"
)

const (
	// frameHead is room for the size of a frame before its bytes: six hex
	// digits and a line end.
	frameHead = 8
	// frameTail is room for the line end after them.
	frameTail = 2
)

// frames writes pieces of a window as frames of a chunked answer (RFC 9112,
// 7.1), straight to the caller's connection: net/http, which sent the head and
// will send the last, empty frame, would copy every piece twice and format its
// size with fmt. The window lies in space, which has room for what frames need.
type frames struct {
	conn  net.Conn // nil: the answer has other frames, or none
	space []byte
}

// framed is the window inside a space.
func framed(space []byte) []byte { return space[frameHead : len(space)-frameTail] }

// framesOf returns the connection of an answer whose head was flushed, if what
// follows has to be chunks.
func framesOf(x *exchange) net.Conn {
	r, header := x.r, x.w.Header()
	c, known := r.Context().Value(connKey{}).(*wordedConn)
	if !known || r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Method == http.MethodHead ||
		x.rec.Status != http.StatusOK || header["Content-Length"] != nil || header["Transfer-Encoding"] != nil {
		return nil
	}
	return c
}

// write sends window[from:to], which must not be empty, as a frame. What lies
// before it in the window is lost, what lies behind it is not.
func (f *frames) write(from, to int) error {
	const digits = "0123456789abcdef"
	at, end := frameHead+from, frameHead+to
	f.space[at-2], f.space[at-1] = '\r', '\n'
	at -= 2
	for n := to - from; n > 0; n >>= 4 {
		at--
		f.space[at] = digits[n&0xf]
	}
	behind := [frameTail]byte(f.space[end:])
	f.space[end], f.space[end+1] = '\r', '\n'
	_, err := f.conn.Write(f.space[at : end+frameTail])
	copy(f.space[end:], behind[:])
	return err //nolint:wrapcheck // it only means that the caller left
}
