package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// h2 are the bytes of a frame.
func h2(kind, flags byte, stream uint32, content string) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(content))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), content...)
}

// spoken is a connection on which a caller has sent the preface and more.
func spoken(t *testing.T, crowd *untaken, more ...[]byte) *wordedConn {
	t.Helper()
	server, caller := net.Pipe()
	c := newWordedConn(server, nil, crowd)
	t.Cleanup(func() { _, _ = c.Close(), caller.Close() })
	go func() { _, _ = caller.Write(append([]byte(http2Preface), bytes.Join(more, nil)...)) }()
	return c
}

func read(c *wordedConn, n int) (got int, err error) {
	p := make([]byte, 64<<10)
	for got < n && err == nil {
		var some int
		some, err = c.Read(p)
		got += some
	}
	return got, err
}

const many = 40

// A request that is taken back at once counts until its handler has ended, also
// when its connection has.
func TestRequestsTakenBackCount(t *testing.T) {
	t.Parallel()
	crowd := newUntaken()
	var sent []byte
	for i := range many {
		stream := uint32(2*i + 1)
		sent = append(append(sent, h2(headersFrame, endHeaders|endStream, stream, "x")...), h2(resetFrame, 0, stream, "0000")...)
	}
	c := spoken(t, crowd, sent)
	passed := make(chan int, 1)
	go func() {
		n, _ := read(c, len(http2Preface)+len(sent))
		passed <- n
	}()
	s := &c.streams
	waitFor(t, "as many as may be unheard", func() bool { return crowd.strangers.Load() == maxUnheard })
	for range maxUnheard {
		s.handle()
	}
	waitFor(t, "as many more", func() bool { return crowd.strangers.Load() == 2*maxUnheard })
	_ = c.Close()
	<-passed
	waitFor(t, "those without a handler to be forgotten", func() bool { return crowd.strangers.Load() == maxUnheard })
	for range maxUnheard {
		s.leave(false, true)
	}
	s.begin(999) // read as the connection ended
	if n := crowd.strangers.Load(); n != 0 {
		t.Errorf("%d still count", n)
	}
}

// Those of callers with a key, and those whose ends are seen, hold nobody up.
func TestRequestsTakenBackAreOver(t *testing.T) {
	t.Parallel()
	crowd := newUntaken()
	s := &spoken(t, crowd).streams
	for i := range 100 {
		stream := uint32(2*i + 1)
		s.begin(stream)
		s.handle()
		s.know()
		s.reset(stream)
		if crowd.strangers.Load() != 0 || s.all() != 1 {
			t.Fatalf("%d strangers', %d in all", crowd.strangers.Load(), s.all())
		}
		s.leave(true, true)
		s.begin(stream + 1) // what the server ends by itself, though the caller has
		s.reset(stream + 1)
		s.end(stream + 1)
		if s.all() != 0 {
			t.Fatalf("%d are left", s.all())
		}
	}
}

// In a crowd an address has a part of it, then nothing more of it is read, and in
// the end its connections are closed. Others' are served, and a connection of
// somebody who is known may have more requests of strangers.
func TestAnAddressHasAPartOfTheCrowd(t *testing.T) {
	t.Parallel()
	crowd := newUntaken()
	here, there := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	crowd.add(here, maxStrangers)
	request := func(stream uint32) []byte { return h2(headersFrame, endHeaders, stream, "x") }
	from := func(p netip.Prefix, trusted bool, sent ...[]byte) (*wordedConn, int) {
		c := spoken(t, crowd, sent...)
		c.streams.from = p
		c.streams.trusted.Store(trusted)
		return c, len(http2Preface) + len(bytes.Join(sent, nil))
	}
	first, n := from(there, false, request(1))
	if _, err := read(first, n); err != nil {
		t.Fatalf("one of another address: %v", err)
	}
	if crowd.strangers.Load() != maxStrangers+1 || !crowd.crowded() {
		t.Fatalf("%d strangers'", crowd.strangers.Load())
	}
	other, n := from(there, false, request(1))
	if _, err := read(other, n); err != nil {
		t.Errorf("a second of another address: %v", err)
	}
	known, n := from(here, true, request(1), request(3), request(5))
	if _, err := read(known, n); err != nil {
		t.Errorf("one of somebody who is known: %v", err)
	}
	before := crowd.strangers.Load()
	late, n := from(here, false, request(1))
	if _, err := read(late, n); !errors.Is(err, errCrowdedOut) {
		t.Errorf("one more of the address that has many: %v", err)
	}
	if now := crowd.strangers.Load(); now != before {
		t.Errorf("what was not read counts: %d instead of %d", now, before)
	}
}

// After GOAWAY the server hears of no other request, and nobody waits for one.
func TestRequestsAfterGoAway(t *testing.T) {
	t.Parallel()
	var sent []byte
	for i := range 5 * maxUnheard {
		sent = append(sent, h2(headersFrame, endHeaders|endStream, uint32(2*i+1), "x")...)
	}
	c := spoken(t, newUntaken(), sent)
	n, err := read(c, len(http2Preface))
	if err != nil {
		t.Fatal(err)
	}
	c.streams.wrote(h2(goAwayFrame, 0, 0, "00000000"))
	if _, err := read(c, len(http2Preface)+len(sent)-n); err != nil || len(c.streams.open) > 2*maxUnheard {
		t.Errorf("%d are waited for: %v", len(c.streams.open), err)
	}
}

// Headers that are not whole have a bound together: whoever is beyond a usual
// one's size then is refused.
func TestHeadersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	crowd := newUntaken()
	crowd.halfHeaders.Store(maxHalfHeaders + 1)
	large := h2(headersFrame, 0, 1, strings.Repeat("x", 2*freeHeader))
	c := spoken(t, crowd, large)
	if n, err := read(c, len(http2Preface)+len(large)); !errors.Is(err, errCrowdedOut) || n > len(http2Preface)+9 {
		t.Errorf("%d bytes were read: %v", n, err)
	}
	if n := crowd.halfHeaders.Load(); n != maxHalfHeaders+1+maxHeader-freeHeader {
		t.Errorf("%d bytes count", n)
	}
	_ = c.Close()
	if n := crowd.halfHeaders.Load(); n != maxHalfHeaders+1 {
		t.Errorf("%d bytes count after its end", n)
	}
	usual := h2(headersFrame, endHeaders, 1, strings.Repeat("x", freeHeader-1))
	if _, err := read(spoken(t, crowd, usual), len(http2Preface)+len(usual)); err != nil {
		t.Errorf("one of the usual size: %v", err)
	}

	trusted := spoken(t, crowd, large)
	trusted.streams.trusted.Store(true)
	if _, err := read(trusted, len(http2Preface)+len(large)); err != nil {
		t.Errorf("one of somebody who is known: %v", err)
	}
	_ = trusted.Close()
	one := halfHeader{crowd: crowd}
	one.add(2 * freeHeader)
	if one.mayGrow() {
		t.Error("it may grow")
	}
	crowd.halfHeaders.Add(-maxHalfHeaders)
	if !one.mayGrow() {
		t.Error("there is room again")
	}
	one.close()
	one.add(1 << 20)
	if n := crowd.halfHeaders.Load(); n != 1 {
		t.Errorf("%d bytes count at the end", n)
	}
}

// One of HTTP/1 is told so.
func TestHeadersThatAreCrowdedOut(t *testing.T) {
	t.Parallel()
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(listener) }()
	ask := func(size int) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Large", strings.Repeat("x", size))
		answer, err := new(http.Transport).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	s.untaken.halfHeaders.Store(maxHalfHeaders + 1)
	if status, text := ask(5 * freeHeader); status != http.StatusServiceUnavailable || !strings.Contains(text, "header_crowded_out") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(freeHeader / 2); status != http.StatusNoContent {
		t.Errorf("a usual one: %d", status)
	}
	s.untaken.halfHeaders.Add(-maxHalfHeaders)
	if status, _ := ask(5 * freeHeader); status != http.StatusNoContent {
		t.Errorf("a large one, when there is room: %d", status)
	}
	waitFor(t, "nothing to count", func() bool { return s.untaken.halfHeaders.Load() == 1 })
}

// A header has as many frames as it needs, a connection as many without content
// as clients send, and headers that follow each other are not one.
func TestFramesThatAskForNothing(t *testing.T) {
	t.Parallel()
	header := append(h2(headersFrame, 0, 1, "x"), bytes.Repeat(h2(continuationFrame, 0, 1, ""), maxContinuations)...)
	if _, err := read(spoken(t, newUntaken(), header), 1<<20); !errors.Is(err, errFramesOfHeader) {
		t.Errorf("a header of many frames: %v", err)
	}
	const ping = 6
	if _, err := read(spoken(t, newUntaken(), bytes.Repeat(h2(ping, 0, 0, "12345678"), 2*maxIdleFrames)), 1<<20); !errors.Is(err, errIdleFrames) {
		t.Errorf("pings: %v", err)
	}
	back := bytes.Repeat(h2(resetFrame, 0, 1, "0000"), 2*maxIdleFrames)
	if _, err := read(spoken(t, newUntaken(), back), 1<<20); !errors.Is(err, errIdleFrames) {
		t.Errorf("a stranger's resets: %v", err)
	}
	trusted := spoken(t, newUntaken(), back)
	trusted.streams.know()
	if _, err := read(trusted, len(http2Preface)+len(back)); err != nil {
		t.Errorf("resets of somebody who is known: %v", err)
	}
	trailers := bytes.Repeat(h2(headersFrame, endHeaders, 1, "x"), 3*maxContinuations)
	data := bytes.Repeat(h2(dataFrame, 0, 1, "x"), 3*maxIdleFrames)
	if _, err := read(spoken(t, newUntaken(), trailers, data), len(http2Preface)+len(trailers)+len(data)); err != nil {
		t.Errorf("headers and data: %v", err)
	}
}

// A header in several frames has its time, and what comes after it has not.
func TestHeaderBlocksHaveADeadline(t *testing.T) {
	t.Parallel()
	conn := &deadlined{}
	var b headerBlock
	b.crowd = newUntaken()
	began := time.Now()
	for _, step := range []struct {
		flags   byte
		arrived bool
		limited bool
	}{{0, true, true}, {endHeaders, false, true}, {endHeaders, true, false}} {
		kind := byte(continuationFrame)
		if b.frames == 0 {
			kind = headersFrame
		}
		if err := b.frame(h2Frame{kind: kind, flags: step.flags, stream: 1, length: 10}, began); err != nil {
			t.Fatal(err)
		}
		b.limit(conn, step.arrived)
		if limited := !conn.until.IsZero(); limited != step.limited || limited && !conn.until.Equal(began.Add(headerTimeout)) {
			t.Errorf("%+v: the deadline is %v", step, conn.until)
		}
	}
	if b.bytes != 0 {
		t.Errorf("%d bytes of no header", b.bytes)
	}
}

type deadlined struct {
	net.Conn
	until time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.until = t
	return nil
}
