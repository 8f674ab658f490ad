package gateway

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
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
	// there are too many of them in all, and crowdedTrusted the same where a
	// request was somebody's, as on a proxy's.
	crowdedStrangers, crowdedTrusted = 1, maxUnheard
	// resetLimit is how long a request that its caller took back counts, unless
	// its handler is seen to end: the handler may only be about to begin.
	resetLimit = time.Second
)

// streams knows the requests of one HTTP/2 connection that are not over, and
// lets the server read on only while all but a few of them are with their
// handlers and, in a crowd of strangers, are somebody's. There is no hook for
// the others: net/http answers a request by itself, before any handler, whose
// header is too long or has a field of HTTP/1, and one connection may have a
// thousand of those at once. A request that its caller takes back at once is not
// over with that, nor with its connection: its handler is yet to begin and to
// end. Which handler is a stream's is not known, so these are counted only.
// Frames are looked at as they pass (RFC 9113, 4.1, 5.1 and 6); they are not
// changed.
type streams struct {
	greeted int // bytes of the preface that were seen; notGreeted: this is HTTP/1
	in, out headScanner
	top     uint32 // the highest number of a request
	held    []byte // read, and not handed on yet
	block   headerBlock
	idle    idleFrames
	broken  error       // why nothing more is read
	trusted atomic.Bool // a request was somebody's
	crowd   *untaken
	from    netip.Prefix  // the caller's address
	news    chan struct{} // one request less is to be waited for; nil for HTTP/1

	mu      sync.Mutex
	open    map[uint32]struct{} // requests that are not over, by number
	resets  []takenBack         // the oldest first
	fading  bool                // resets are looked at again
	handled int                 // those with a handler
	known   int                 // those of them that are somebody's
	counted int                 // strangers' that the crowd has from here
	waits   int                 // 1: the latest of open waits to be read; 0: none does
	leaving bool                // GOAWAY was said, and the server hears of no other
	closed  bool
}

// takenBack is a request that its caller has reset.
type takenBack struct {
	stream uint32
	at     time.Time
}

const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	notGreeted   = -1 // by an HTTP/2 caller

	dataFrame         = 0
	headersFrame      = 1
	resetFrame        = 3
	goAwayFrame       = 7
	windowFrame       = 8
	continuationFrame = 9
	endStream         = 1 // flag of the first two
	endHeaders        = 4 // flag of what has a part of a header
)

// headScanner finds the heads of frames in what passes, however it is cut.
type headScanner struct {
	head [9]byte
	have int // bytes of a head
	skip int // bytes of a frame's content that are still to come
}

// h2Frame is what is looked at of a frame of HTTP/2: its head.
type h2Frame struct {
	kind, flags byte
	stream      uint32
	length      int // of its content, in bytes
}

func (f h2Frame) ends() bool {
	return f.kind == resetFrame || (f.kind == headersFrame || f.kind == dataFrame) && f.flags&endStream != 0
}

// scan calls frame with each frame's head, and returns how much was looked at:
// all, or until frame says that it is enough.
func (h *headScanner) scan(p []byte, frame func(h2Frame) (enough bool)) int {
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
		if frame(h2Frame{h.head[3], h.head[4], binary.BigEndian.Uint32(h.head[5:]) &^ (1 << 31), h.skip}) {
			return at
		}
	}
	return len(p)
}

// speakHTTP2 tells whether the caller has said so.
func (s *streams) speakHTTP2() bool { return s.greeted == len(http2Preface) }

// read is a connection's Read, from source.
func (s *streams) read(source net.Conn, p []byte) (int, error) {
	if s.greeted == notGreeted {
		return source.Read(p) //nolint:wrapcheck // a connection's errors are the system's
	}
	if s.broken == nil {
		s.await()
	}
	if s.broken != nil {
		return 0, s.broken
	}
	if len(s.held) > 0 {
		n := s.scan(s.held[:min(len(p), len(s.held))])
		s.block.limit(source, s.in.skip == 0)
		copy(p, s.held[:n])
		if s.held = s.held[n:]; len(s.held) == 0 {
			s.held = nil
		}
		return n, s.broken
	}
	n, err := source.Read(p)
	passes := s.scan(p[:n])
	if s.block.limit(source, s.in.skip == 0); s.broken != nil {
		return passes, s.broken
	}
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
	return at + s.in.scan(p[at:], s.heard)
}

// heard looks at one frame of the caller's, and tells whether it is enough.
func (s *streams) heard(f h2Frame) bool {
	now := time.Now()
	trusted := s.trusted.Load()
	s.broken = cmp.Or(s.block.frame(f, now), s.idle.frame(f, trusted, now))
	if s.broken == nil && !trusted && !s.block.mayGrow() {
		s.broken = errCrowdedOut
	}
	if s.broken != nil {
		return true
	}
	switch {
	case f.kind == headersFrame && f.stream > s.top: // else a trailer
		s.top = f.stream
		return s.begin(f.stream)
	case f.kind == resetFrame:
		s.reset(f.stream)
	}
	return false
}

// wrote looks at what was written.
func (s *streams) wrote(p []byte) {
	s.out.scan(p, func(f h2Frame) bool {
		switch {
		case f.ends():
			s.end(f.stream)
		case f.kind == goAwayFrame:
			s.change(func() { s.leaving = true })
		}
		return false
	})
}

// begin tells whether this is one too many.
func (s *streams) begin(stream uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving || s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[uint32]struct{}{}
	}
	s.open[stream] = struct{}{}
	s.waits = 1
	if !s.tooMany() {
		s.waits = 0
	}
	s.changed()
	return s.waits > 0
}

// end is told of what the server has ended.
func (s *streams) end(stream uint32) {
	s.change(func() {
		delete(s.open, stream)
		s.resets = slices.DeleteFunc(s.resets, func(r takenBack) bool { return r.stream == stream })
	})
}

// reset is told of what the caller has.
func (s *streams) reset(stream uint32) {
	s.change(func() {
		if _, open := s.open[stream]; open {
			delete(s.open, stream)
			s.resets = append(s.resets, takenBack{stream, time.Now()})
			s.fadeLater()
		}
	})
}

// fade leaves out those that were reset long enough ago.
func (s *streams) fade() {
	s.change(func() {
		s.fading = false
		old := time.Now().Add(-resetLimit)
		s.resets = slices.DeleteFunc(s.resets, func(r takenBack) bool { return !r.at.After(old) })
		s.fadeLater()
	})
}

func (s *streams) fadeLater() {
	if len(s.resets) > 0 && !s.fading {
		s.fading = true
		time.AfterFunc(resetLimit, s.fade)
	}
}

// handle is told of each request that a handler begins with.
func (s *streams) handle() { s.change(func() { s.handled++ }) }

// know is told of those that turn out to be somebody's.
func (s *streams) know() {
	s.trusted.Store(true)
	s.change(func() { s.known++ })
}

// leave is told of each that a handler is done with, whether it was somebody's,
// and whether it was taken back before that.
func (s *streams) leave(known, reset bool) {
	s.change(func() {
		if s.handled--; known {
			s.known--
		}
		if reset && len(s.resets) > 0 {
			s.resets = s.resets[1:]
		}
	})
}

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

// all is how many are not over: those that are open, and those that were taken
// back and are not known to have ended.
func (s *streams) all() int { return max(len(s.open)+len(s.resets), s.handled) }

// changed tells the crowd how many strangers' there are. Between a handler's
// end and its answer's one may count that is none.
func (s *streams) changed() {
	now := max(0, s.all()-s.known-s.waits)
	s.crowd.add(s.from, now-s.counted)
	s.counted = now
}

// close is told of the connection's end, which takes back what is open.
func (s *streams) close() {
	s.change(func() {
		if s.closed {
			return
		}
		s.closed, s.waits = true, 0
		for stream := range s.open {
			s.resets = append(s.resets, takenBack{stream, time.Now()})
		}
		s.open = nil
		s.fadeLater()
	})
	s.block.close()
}

// tooMany tells whether the server must not read on.
func (s *streams) tooMany() bool {
	if s.closed {
		return false
	}
	if s.all()-s.handled > maxUnheard && !s.leaving {
		return true
	}
	if !s.crowd.crowded() {
		return false
	}
	strangers := s.all() - s.known
	if s.trusted.Load() {
		return strangers > crowdedTrusted
	}
	return strangers > crowdedStrangers || s.waits > 0 && s.crowd.full(s.from)
}

// await waits until the server may read on.
func (s *streams) await() {
	if s.mayGoOn() {
		return
	}
	until := time.Now().Add(unheardLimit)
	again := time.NewTicker(250 * time.Millisecond) // a crowd may go without news from here
	defer again.Stop()
	for !s.mayGoOn() {
		select {
		case <-s.news:
		case now := <-again.C:
			if now.After(until) {
				s.giveUp()
				return
			}
		}
	}
}

// giveUp waits no longer: what no handler hears of has ended, or never will. A
// stranger whose address has its part of the crowd is hung up on.
func (s *streams) giveUp() {
	s.change(func() {
		if s.waits > 0 && !s.trusted.Load() && s.crowd.crowded() && s.crowd.full(s.from) {
			s.broken = errCrowdedOut
		}
		s.open, s.resets, s.waits = nil, nil, 0
	})
}

func (s *streams) mayGoOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tooMany() {
		return false
	}
	if s.waits > 0 {
		s.waits = 0
		s.changed()
	}
	return true
}
