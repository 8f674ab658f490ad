package gateway

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"time"
)

const (
	// unheardLimit is how long a request may be with the server before its
	// handler hears of it. What net/http answers by itself never comes so far:
	// if its caller takes nothing of that answer, it ends then.
	unheardLimit = 5 * time.Second
	// maxUnheard is how many of these there may be on one HTTP/2 connection
	// before nothing more is read of it, and how many requests of strangers where
	// those have too many. Each holds some 13 KiB.
	maxUnheard = 16
)

// streams counts the requests of one HTTP/2 connection, and lets the server
// read on only while all but a few have reached their handlers and, in a crowd
// of strangers, are somebody's or over. There is no hook for the others: net/http
// answers a request by itself, before any handler, whose header is too long or
// has a field of HTTP/1, and one connection may have a thousand of those at once.
// The frames are counted as they pass, by RFC 9113, 4.1 and 6.2; they are not
// changed.
type streams struct {
	greeted int // bytes of the preface that were seen; notGreeted: this is HTTP/1
	head    [9]byte
	have    int    // bytes of a frame's head
	skip    int    // bytes of its content that are still to come
	top     uint32 // the highest number of a stream
	begun   int64  // streams
	lost    int64  // those of them that nobody waits for any more
	held    []byte // read, and not handed on yet

	crowd   *untaken
	heard   atomic.Int64  // streams that have reached their handler
	settled atomic.Int64  // those of them that are somebody's, or over
	news    chan struct{} // one more of either; nil for HTTP/1
}

const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	notGreeted   = -1 // by an HTTP/2 caller
	headersFrame = 1
)

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

// speakHTTP2 tells whether the caller has said so.
func (s *streams) speakHTTP2() bool { return s.greeted == len(http2Preface) }

// await waits until the server may read on.
func (s *streams) await() {
	if s.open() <= maxUnheard {
		return
	}
	until := time.Now().Add(unheardLimit)
	again := time.NewTicker(100 * time.Millisecond) // a crowd may go without news from here
	defer again.Stop()
	for s.open() > maxUnheard {
		select {
		case <-s.news:
		case now := <-again.C:
			if now.After(until) { // what no handler hears of has ended
				s.lost += s.open()
			}
		}
	}
}

// open is how many requests are to be waited for.
func (s *streams) open() int64 {
	done := s.heard.Load()
	if s.crowd.crowded.Load() {
		done = s.settled.Load()
	}
	n := s.begun - s.lost - done
	if n < 0 { // one of the lost was slow
		s.lost, n = s.lost+n, 0
	}
	return n
}

// hear is told of each request that reaches its handler.
func (s *streams) hear() {
	s.heard.Add(1)
	s.tell()
}

// settle is told of each that turns out to be somebody's, or else is over.
func (s *streams) settle() {
	if s != nil {
		s.settled.Add(1)
		s.tell()
	}
}

func (s *streams) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// scan counts what begins in p and returns how many bytes of it may be handed
// on: without the content of a frame that would be one too many.
func (s *streams) scan(p []byte) int {
	for at := 0; at < len(p); {
		switch {
		case s.greeted < len(http2Preface):
			if p[at] != http2Preface[s.greeted] {
				s.greeted = notGreeted
				return len(p)
			}
			at++
			if s.greeted++; s.speakHTTP2() {
				s.news = make(chan struct{}, 1)
			}
		case s.skip > 0:
			n := min(len(p)-at, s.skip)
			at, s.skip = at+n, s.skip-n
		default:
			n := copy(s.head[s.have:], p[at:])
			at, s.have = at+n, s.have+n
			if s.have == len(s.head) && s.frame() && s.open() > maxUnheard {
				return at
			}
		}
	}
	return len(p)
}

// frame reads a frame's head, and tells whether it begins a stream.
func (s *streams) frame() bool {
	s.have, s.skip = 0, int(binary.BigEndian.Uint32(s.head[:4])>>8)
	id := binary.BigEndian.Uint32(s.head[5:]) &^ (1 << 31)
	if s.head[3] != headersFrame || id <= s.top {
		return false
	}
	s.top = id
	s.begun++
	return true
}
