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
// and whoever sends it are through with it: a large body may still be sent when
// there is an answer already.
type bodies struct{ pool sync.Pool } // of *[]byte

// maxPooledBody is the largest buffer that is kept for the next request.
const maxPooledBody = 1 << 20

// body is one request's body and what is sent instead of it.
type body struct {
	home   *bodies
	store  *[]byte // where bytes goes back to
	bytes  []byte
	held   bool         // the handler still uses it
	users  atomic.Int32 // the handler and those who send it
	pieces [][]byte
	length int64
	sentAt atomic.Int64 // UnixNano at which the system had all of it
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
		return nil, x.gone()
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

// use counts one more use, by whoever sends the pieces as they are now. What it
// returns ends that use and notes when everything was sent.
func (b *body) use(now func() time.Time) (ended func(all bool)) {
	b.users.Add(1)
	return func(all bool) {
		if all {
			b.sentAt.Store(now().UnixNano())
		}
		b.unuse()
	}
}
