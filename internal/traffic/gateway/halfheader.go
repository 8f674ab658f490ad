package gateway

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// freeHeader is how much of a header anybody may send; nearly all are smaller.
	freeHeader = 8 << 10
	// maxHalfHeaders is how much more there may be, in bytes, of all headers that
	// are not whole. Who is beyond freeHeader is refused then.
	maxHalfHeaders = 32 << 20
	// fieldCost is what a field of a header costs, in bytes, beside its text.
	fieldCost = 128
	// maxContinuations is how many frames one header may have. Sixteen KiB fit into
	// each.
	maxContinuations = 32
	// maxIdleFrames is how many frames without a request's content a caller may
	// send within a second.
	maxIdleFrames = 200
)

var (
	errCrowdedOut     = errors.New("too many headers are not whole, and this one grows")
	errFramesOfHeader = errors.New("a header has too many frames")
	errIdleFrames     = errors.New("too many frames without content")
)

// halfHeader counts what came of a header that is not whole. Until it is,
// nobody knows whose it is; net/http bounds each, and how long it may take.
type halfHeader struct {
	crowd *untaken

	mu     sync.Mutex
	bytes  int64
	closed bool
}

func (h *halfHeader) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.set(h.bytes + int64(n))
	}
}

// whole is told that it is, or that it never will be.
func (h *halfHeader) whole() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(0)
}

// close is told that there will be no other.
func (h *halfHeader) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.set(0)
}

func (h *halfHeader) set(n int64) {
	if more := max(0, n-freeHeader) - max(0, h.bytes-freeHeader); more != 0 {
		h.crowd.halfHeaders.Add(more)
	}
	h.bytes = n
}

// mayGrow tells whether more of it may be read.
func (h *halfHeader) mayGrow() bool {
	if h.crowd.halfHeaders.Load() <= maxHalfHeaders {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed || h.bytes < freeHeader
}

// headerBlock is the header that comes on an HTTP/2 connection, in frames that
// nothing may come between (RFC 9113, 4.3 and 6.10). net/http gives it no limit of
// time.
type headerBlock struct {
	halfHeader
	frames  int       // 0: none is on its way
	ended   bool      // with the frame that came last
	since   time.Time // its beginning
	limited bool      // the connection has a deadline for it
}

// frame looks at the next one.
func (b *headerBlock) frame(f h2Frame, now time.Time) error {
	if b.ended {
		b.over()
	}
	if f.kind != headersFrame && f.kind != continuationFrame {
		return nil
	}
	if b.frames++; b.frames == 1 {
		b.since = now
	}
	if b.frames > maxContinuations {
		return errFramesOfHeader
	}
	if b.ended = f.flags&endHeaders != 0; b.ended {
		b.add(f.length)
	} else {
		b.add(maxHeader) // some bytes of it say a great deal
	}
	return nil
}

func (b *headerBlock) over() {
	b.frames, b.ended = 0, false
	b.whole()
}

// limit gives the connection a deadline while a header is on its way; arrived
// tells that the last frame's content has.
func (b *headerBlock) limit(conn net.Conn, arrived bool) {
	if b.ended && arrived {
		b.over()
	}
	pending := b.frames > 0
	if pending == b.limited {
		return
	}
	b.limited = pending
	var deadline time.Time
	if pending {
		deadline = b.since.Add(headerTimeout)
	}
	_ = conn.SetReadDeadline(deadline)
}

// idleFrames counts frames that ask for nothing: each costs the server something,
// and the caller nearly nothing. So do requests that are taken back at once, but
// where nobody is known to ask.
type idleFrames struct {
	since time.Time
	count int
}

func (i *idleFrames) frame(f h2Frame, trusted bool, now time.Time) error {
	switch f.kind {
	case headersFrame, continuationFrame, windowFrame:
		return nil
	case resetFrame:
		if trusted {
			return nil
		}
	case dataFrame:
		if f.length > 0 || f.flags&endStream != 0 {
			return nil
		}
	}
	if now.Sub(i.since) > time.Second {
		i.since, i.count = now, 0
	}
	if i.count++; i.count > maxIdleFrames {
		return errIdleFrames
	}
	return nil
}
