package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// bodies keeps buffers for request bodies. A buffer goes back when the handler
// and every reader that was handed to the transport are through with it: the
// transport may still read after it has returned an answer.
type bodies struct{ pool sync.Pool } // of *[]byte

// maxPooledBody is the largest buffer that is kept for the next request.
const maxPooledBody = 1 << 20

// body is one request's body and what is sent instead of it.
type body struct {
	home   *bodies
	store  *[]byte // where bytes goes back to
	bytes  []byte
	held   bool         // the handler still uses it
	users  atomic.Int32 // the handler and the readers
	pieces [][]byte
	length int64
	sentAt atomic.Int64 // UnixNano at which the transport had read it all
}

// readBody reads the whole body into memory, up to the limit.
func (g *Gateway) readBody(x *exchange) (*body, error) {
	limit := g.cfg.MaxBody
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	store, _ := g.bodies.pool.Get().(*[]byte)
	if store == nil {
		store = new([]byte)
	}
	b := &body{home: &g.bodies, store: store, held: true}
	b.users.Store(1)
	var err error
	if b.bytes, err = readAll((*store)[:0], x.r.Body, x.r.ContentLength, limit); err == nil {
		return b, nil
	}
	b.release()
	var known *failure
	switch {
	case errors.As(err, &known):
		return nil, known
	case x.r.Context().Err() != nil:
		return nil, errGone
	}
	return nil, badRequest(&wire.RequestError{
		Code: "unreadable_body", Err: fmt.Errorf("the request body could not be read to its end: %w", err),
	})
}

// readAll reads src into buf, which it grows: at once where the length is
// known and small, otherwise by doubling, so that an announced length alone
// costs no memory.
func readAll(buf []byte, src io.Reader, length, limit int64) ([]byte, error) {
	const first = 1 << 10
	want := min(max(length+1, first), maxPooledBody) // one more than the body: room to see its end
	if int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	for {
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, tooLarge(limit)
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
	}
}

func tooLarge(limit int64) error {
	return &failure{
		status: http.StatusRequestEntityTooLarge, kind: typeRequest, code: "body_too_large", outcome: traffic.RejectedLimit,
		message: fmt.Sprintf("the request body is larger than %d bytes, the most that is accepted; send less", limit),
	}
}

// patch prepares what is sent: the body with the patches in place.
func (b *body) patch(patches []wire.Patch) {
	b.pieces, b.length = wire.Pieces(b.bytes, patches)
}

// release gives up the handler's use; again does nothing.
func (b *body) release() {
	if b.held {
		b.held = false
		b.unuse()
	}
}

// unuse gives up one use; after the last one the buffer serves another
// request.
func (b *body) unuse() {
	if b.users.Add(-1) > 0 {
		return
	}
	if cap(b.bytes) <= maxPooledBody {
		*b.store = b.bytes
		b.home.pool.Put(b.store)
	}
	b.bytes, b.pieces, b.store = nil, nil, nil
}

// reader returns a new reader of what is sent; closing it ends its use.
func (b *body) reader(now func() time.Time) *bodyReader {
	b.users.Add(1)
	return &bodyReader{body: b, pieces: b.pieces, now: now}
}

// bodyReader reads the pieces one after the other. The lock is what makes it
// safe to reuse the buffer: the transport may close a body on one goroutine
// while another still reads, and a byte of the next request must never be
// sent with this one.
//
// It keeps the pieces of its own attempt, because the transport may still read
// for an engine that answered early while the next one gets other pieces.
type bodyReader struct {
	body   *body
	pieces [][]byte
	now    func() time.Time

	mu     sync.Mutex
	piece  int
	offset int
	closed bool
}

var errBodyClosed = errors.New("read from a request body that was closed")

func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, errBodyClosed
	}
	pieces := r.pieces
	n := 0
	for n < len(p) && r.piece < len(pieces) {
		c := copy(p[n:], pieces[r.piece][r.offset:])
		n += c
		if r.offset += c; r.offset == len(pieces[r.piece]) {
			r.piece, r.offset = r.piece+1, 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.piece == len(r.pieces) {
		r.body.sentAt.Store(r.now().UnixNano())
	}
	r.body.unuse()
	return nil
}
