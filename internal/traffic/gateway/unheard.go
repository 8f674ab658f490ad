package gateway

import (
	"encoding/binary"
	"io"
	"sync"
	"time"
)

const (
	// unheardLimit is how long a request may be with the server before its
	// handler hears of it. What net/http answers by itself never comes so far:
	// if its caller takes nothing of that answer, it ends then.
	unheardLimit = 5 * time.Second
	// maxUnheard is how many of these there may be on one HTTP/2 connection
	// before nothing more is read of it.
	maxUnheard = 16
	// crowdedStrangers is how many requests of strangers there may be on one where
	// there are too many of them in all.
	crowdedStrangers = 1
)

// streams knows the requests of one HTTP/2 connection that are not over, and
// lets the server read on only while all but a few of them are with their
// handlers and, in a crowd of strangers, are somebody's. There is no hook for
// the others: net/http answers a request by itself, before any handler, whose
// header is too long or has a field of HTTP/1, and one connection may have a
// thousand of those at once. Frames are looked at as they pass (RFC 9113, 4.1, 5.1
// and 6); they are not changed.
type streams struct {
	greeted int // bytes of the preface that were seen; notGreeted: this is HTTP/1
	in, out headScanner
	top     uint32 // the highest number of a request
	held    []byte // read, and not handed on yet
	crowd   *untaken
	news    chan struct{} // one request less is to be waited for; nil for HTTP/1

	mu      sync.Mutex
	open    map[uint32]struct{} // requests that are not over, by number
	handled int                 // those with a handler
	known   int                 // those of them that are somebody's
	counted int                 // strangers' that the crowd has from here
	closed  bool
}

const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	notGreeted   = -1 // by an HTTP/2 caller

	dataFrame    = 0
	headersFrame = 1
	resetFrame   = 3
	endStream    = 1 // flag of the first two
)

// headScanner finds the heads of frames in what passes, however it is cut.
type headScanner struct {
	head [9]byte
	have int // bytes of a head
	skip int // bytes of a frame's content that are still to come
}

// scan calls frame with each frame's type, flags and stream, and returns how
// much was looked at: all, or until frame says that it is enough.
func (h *headScanner) scan(p []byte, frame func(kind, flags byte, stream uint32) (enough bool)) int {
	for at := 0; at < len(p); {
		if h.skip > 0 {
			n := min(len(p)-at, h.skip)
			at, h.skip = at+n, h.skip-n
			continue
		}
		n := copy(h.head[h.have:], p[at:])
		at, h.have = at+n, h.have+n
		if h.have < len(h.head) {
			break
		}
		h.have, h.skip = 0, int(binary.BigEndian.Uint32(h.head[:4])>>8)
		if frame(h.head[3], h.head[4], binary.BigEndian.Uint32(h.head[5:])&^(1<<31)) {
			return at
		}
	}
	return len(p)
}

// speakHTTP2 tells whether the caller has said so.
func (s *streams) speakHTTP2() bool { return s.greeted == len(http2Preface) }

// read is a connection's Read, from source.
func (s *streams) read(source io.Reader, p []byte) (int, error) {
	if s.greeted == notGreeted {
		return source.Read(p) //nolint:wrapcheck // a connection's errors are the system's
	}
	s.await()
	if len(s.held) > 0 {
		n := s.scan(s.held[:min(len(p), len(s.held))])
		copy(p, s.held[:n])
		if s.held = s.held[n:]; len(s.held) == 0 {
			s.held = nil
		}
		return n, nil
	}
	n, err := source.Read(p)
	passes := s.scan(p[:n])
	if passes < n {
		s.held = append(s.held, p[passes:n]...)
		return passes, nil // the error comes again
	}
	return n, err //nolint:wrapcheck // the same
}

// scan looks at what was read and returns how many bytes of it may be handed
// on: without the content of a frame that would be one too many.
func (s *streams) scan(p []byte) int {
	at := 0
	for ; at < len(p) && !s.speakHTTP2(); at++ {
		if p[at] != http2Preface[s.greeted] {
			s.greeted = notGreeted
			return len(p)
		}
		if s.greeted++; s.speakHTTP2() {
			s.news = make(chan struct{}, 1)
		}
	}
	return at + s.in.scan(p[at:], func(kind, _ byte, stream uint32) bool {
		switch {
		case kind == headersFrame && stream > s.top: // else a trailer
			s.top = stream
			return s.begin(stream)
		case kind == resetFrame:
			s.end(stream)
		}
		return false
	})
}

// wrote looks at what was written.
func (s *streams) wrote(p []byte) {
	s.out.scan(p, func(kind, flags byte, stream uint32) bool {
		if kind == resetFrame || (kind == headersFrame || kind == dataFrame) && flags&endStream != 0 {
			s.end(stream)
		}
		return false
	})
}

// begin tells whether this is one too many.
func (s *streams) begin(stream uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[uint32]struct{}{}
	}
	s.open[stream] = struct{}{}
	s.changed()
	return s.tooMany()
}

func (s *streams) end(stream uint32) {
	s.change(func() { delete(s.open, stream) })
}

// handle is told of each request that a handler begins with, 1, or is done with, -1.
func (s *streams) handle(n int) { s.change(func() { s.handled += n }) }

// know is the same of those that turn out to be somebody's.
func (s *streams) know(n int) { s.change(func() { s.known += n }) }

func (s *streams) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// changed tells the crowd how many strangers' there are. Between a handler's
// end and its answer's one may count that is none.
func (s *streams) changed() {
	now := max(0, len(s.open)-s.known)
	if s.closed {
		now = 0
	}
	s.crowd.strangers.Add(int64(now - s.counted))
	s.counted = now
}

// close is told of the connection's end.
func (s *streams) close() {
	s.change(func() { s.closed = true })
}

// tooMany tells whether the server must not read on.
func (s *streams) tooMany() bool {
	if s.closed {
		return false
	}
	if len(s.open)-s.handled > maxUnheard {
		return true
	}
	return s.crowd.crowded() && len(s.open)-s.known > crowdedStrangers
}

// await waits until the server may read on.
func (s *streams) await() {
	if s.mayGoOn() {
		return
	}
	until := time.Now().Add(unheardLimit)
	again := time.NewTicker(100 * time.Millisecond) // a crowd may go without news from here
	defer again.Stop()
	for !s.mayGoOn() {
		select {
		case <-s.news:
		case now := <-again.C:
			if now.After(until) { // what no handler hears of has ended, or never will: after GOAWAY
				s.change(func() { clear(s.open) })
				return
			}
		}
	}
}

func (s *streams) mayGoOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tooMany()
}
