package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// bodies keeps buffers for request bodies. A buffer goes back when the handler
// and whoever sends it are through with it: a large body may still be sent when
// there is an answer already.
type bodies struct {
	pool sync.Pool // of *[]byte
	room bodyRoom
}

// maxPooledBody is the largest buffer that is kept for the next request.
const maxPooledBody = 1 << 20

// body is one request's body and what is sent instead of it.
type body struct {
	home     *bodies
	store    *[]byte // where bytes goes back to
	bytes    []byte
	own      *atomic.Int64 // what its tenant holds of the room
	reserved int64         // of that, for this one
	held     bool          // the handler still uses it
	users    atomic.Int32  // the handler and those who send it
	pieces   [][]byte
	length   int64
	sentAt   atomic.Int64 // UnixNano at which the system had all of it
}

// readBody reads the whole body into memory, up to the limit, within the room
// that there is and at the pace that is asked for.
func (g *Gateway) readBody(x *exchange) (*body, error) {
	limit := g.cfg.MaxBody
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	store, _ := g.bodies.pool.Get().(*[]byte)
	if store == nil {
		store = new([]byte)
	}
	b := &body{home: &g.bodies, store: store, held: true, own: g.bodies.room.of(x.rec.Tenant)}
	b.bytes = (*store)[:0]
	b.users.Store(1)
	p := pacer{Pace: g.cfg.Pace, control: http.NewResponseController(x.w)}
	err := b.read(x.r, limit, &p)
	if err == nil {
		x.bodyOver = true
		p.over()
		return b, nil
	}
	read := int64(len(b.bytes))
	b.release()
	var known *failure
	switch {
	case errors.As(err, &known):
		if known.code == "body_memory_full" {
			g.metrics.limited("body memory")
		}
		return nil, known
	case errors.Is(err, os.ErrDeadlineExceeded): // before the context, which ends with every error of the connection
		x.bodyOver = true
		g.metrics.limited("body pace")
		return nil, p.tooSlow(read)
	case x.r.Context().Err() != nil:
		return nil, x.gone()
	}
	return nil, badRequest(&wire.RequestError{
		Code: "unreadable_body", Err: fmt.Errorf("the request body could not be read to its end: %w", err),
	})
}

// read fills the buffer, which it grows: at once where the length is known and
// small, otherwise as the body comes, so that an announced length alone costs
// no memory. The room for what is announced is taken beforehand, so that who
// finds none need not send it.
func (b *body) read(r *http.Request, limit int64, p *pacer) error {
	const first = 1 << 10
	length := r.ContentLength
	if length > 0 {
		if err := b.reserve(length); err != nil {
			return err
		}
	}
	want := min(max(length+1, first), maxPooledBody) // one more than the body: room to see its end
	if int64(cap(b.bytes)) < want {
		b.bytes = make([]byte, 0, want)
	}
	p.begin()
	for {
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		read := int64(len(b.bytes))
		switch {
		case read > limit:
			return tooLarge(limit)
		case errors.Is(err, io.EOF):
			return b.reserve(read - b.reserved)
		case err != nil:
			return err //nolint:wrapcheck // the caller looks at what kind it is
		}
		if err := b.reserve(read - b.reserved); err != nil {
			return err
		}
		p.came(read)
		if read == int64(cap(b.bytes)) {
			grown := length + 1
			if length < read {
				grown = 2 * read
				if err := b.reserve(min(grown, limit) - b.reserved); err != nil {
					return err
				}
			}
			b.bytes = append(make([]byte, 0, grown), b.bytes...)
		}
	}
}

// reserve takes n more bytes of the room; none or fewer are none.
func (b *body) reserve(n int64) error {
	if n <= 0 {
		return nil
	}
	if err := b.home.room.take(b.own, n); err != nil {
		return err
	}
	b.reserved += n
	return nil
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
	b.home.room.give(b.own, b.reserved)
	b.reserved = 0
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
