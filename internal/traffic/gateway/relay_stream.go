package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"time"

	"modeldock.io/internal/traffic/gateway/wire"
)

const (
	// maxHeld is how much of one event is kept until its end is there. What
	// is longer passes unread.
	maxHeld = 256 << 10
	// wideWindow is how much of a flood is read at once.
	wideWindow = 32 << 10
	wideSpace  = frameHead + wideWindow + frameTail
	// afterDone is how long an engine may keep its connection open after
	// [DONE] before it is taken as the end.
	afterDone = time.Second
)

// streamRelay passes one stream of events on. It works on a window: bytes that
// were read and not yet written, which begin with an event.
type streamRelay struct {
	x         *exchange
	rc        *http.ResponseController
	cancel    func() // breaks the engine's connection
	dropUsage bool
	choices   int  // that were asked for, as far as they can be told apart
	dropLF    bool // the usage that was left out ended in CR; its LF may follow
	// contentType of the answer, for the cache.
	contentType string

	scan   wire.EventScanner
	reader wire.Reader
	base   [frameHead + smallBuffer + frameTail]byte // the space of the first window, which most streams never outgrow
	wide   *[wideSpace]byte                          // that of a flood's window; nil: there is none
	full   bool                                      // the last read left hardly any room
	window []byte                                    // window[:filled] was read
	filled int
	frames frames
	held   bool // something was written and lies in net/http's buffers
	unsent bool // something was written and not flushed

	content     bool     // content was passed, perhaps not flushed yet
	seen, ended uint64   // choices that were seen and that have a finish_reason
	done        bool     // [DONE], or what stands for it, was passed
	broken      *failure // that event said that the answer failed
	lastByte    byte     // that was written
}

// relayStream passes events byte for byte, flushed with every read. One event
// may be left out (the usage that only we asked for) and one may be added: the
// error that says that the stream is broken.
func (g *Gateway) relayStream(x *exchange, a *answer, as manner) error {
	s, _ := g.streams.Get().(*streamRelay)
	if s == nil {
		s = new(streamRelay)
	}
	s.reset(x, a.Abort, as)
	defer func() {
		s.narrow()
		s.x, s.rc, s.cancel, s.window, s.frames = nil, nil, nil, nil, frames{}
		g.streams.Put(s)
	}()
	if err := s.begin(a); err != nil {
		return err
	}
	return s.run(a.source)
}

// begin sends the head on its way.
//
//go:noinline // what it needs of the stack is not kept for the stream's life
func (s *streamRelay) begin(a *answer) error {
	x := s.x
	s.contentType = a.Header.Get("Content-Type")
	header := x.w.Header()
	returnHeader(header, a, x.rec.Version)
	if header["Cache-Control"] == nil {
		header["Cache-Control"] = []string{"no-cache"}
	}
	header["X-Accel-Buffering"] = []string{"no"}
	// A stream outlives any write limit of the server; where none is set or
	// the writer knows none there is nothing to lift.
	_ = s.rc.SetWriteDeadline(time.Time{})
	x.start(a.StatusCode)
	x.events = false // from here on the relay knows where an event may stand
	if err := x.flush(s.rc); err != nil {
		return err
	}
	s.frames.conn = framesOf(x)
	return nil
}

// reset prepares a relay that served another stream before.
func (s *streamRelay) reset(x *exchange, cancel func(), as manner) {
	s.x, s.rc, s.cancel, s.dropUsage = x, http.NewResponseController(x.w), cancel, as.dropUsage
	s.choices = int(min(max(as.choices, 1), 64)) // of which Seen and Ended are bits
	s.scan = wire.EventScanner{}
	s.reader = wire.Reader{}
	s.use(s.base[:])
	s.filled, s.held, s.unsent, s.dropLF = 0, false, false, false
	s.content, s.seen, s.ended, s.done, s.broken, s.lastByte = false, 0, 0, false, nil, 0
}

func (s *streamRelay) run(source io.Reader) error {
	for {
		room := len(s.window) - s.filled
		n, err := source.Read(s.window[s.filled:])
		s.full = n > room-room/8 // what frames took is not in n
		if n > 0 {
			s.filled += n
			if ended, err := s.pass(); ended || err != nil {
				return err
			}
		}
		if err != nil {
			return s.end(err)
		}
		if s.filled == len(s.window) {
			if err := s.makeRoom(); err != nil {
				return err
			}
		} else if s.full {
			s.widen()
		}
	}
}

// widen takes a larger window where events come faster than they are passed
// on, so that more of them are read and written at once.
func (s *streamRelay) widen() {
	if len(s.window) >= wideWindow {
		return
	}
	if s.wide, _ = s.x.g.floods.Get().(*[wideSpace]byte); s.wide == nil {
		s.wide = new([wideSpace]byte)
	}
	s.use(s.wide[:])
}

// use makes the window that of another space, with what was read and fits.
func (s *streamRelay) use(space []byte) {
	window := framed(space)
	copy(window, s.window[:min(s.filled, len(s.window))])
	s.window, s.frames.space = window, space
}

// pass writes all complete events of the window. It ends the stream after an
// event that reports a failure.
func (s *streamRelay) pass() (ended bool, err error) {
	win := s.window[:s.filled]
	from, to := s.skipLineEnd(win) // complete events that were not written yet
	var failed *failure
	for failed == nil {
		event, ok := s.scan.Next(win)
		if !ok {
			break
		}
		chunk := s.reader.Read(event)
		s.readLong(&chunk, event, win[to:event.End])
		switch {
		case chunk.Kind == wire.Failure && !s.done:
			failed = failureOf(event)
			continue
		case chunk.Kind == wire.UsageOnly && s.dropUsage:
			s.dropUsage = false
			if win[to] == '\n' { // the rest of the line end before it
				to++
			}
			err = s.write(from, to)
			from = event.End
			s.dropLF = event.End == len(win) && win[event.End-1] == '\r'
		}
		to = event.End
		if chunk.Kind == wire.Broken && !s.done {
			s.broken = brokenAnswer(event)
		}
		s.note(chunk, len(event.Data))
		if err != nil {
			return true, err
		}
	}
	if err := s.write(from, to); err != nil {
		return true, err
	}
	if failed != nil {
		return true, s.fail(failed)
	}
	if err := s.flush(true); err != nil {
		return true, err
	}
	s.filled = copy(s.window, win[to:])
	s.scan.Shift(to)
	s.shrink()
	return false, nil
}

// skipLineEnd returns where the window begins: after the line feed that
// belongs to the event that was left out.
func (s *streamRelay) skipLineEnd(win []byte) (from, to int) {
	if s.dropLF && len(win) > 0 && win[0] == '\n' {
		from, to = 1, 1
	}
	s.dropLF = s.dropLF && len(win) == 0
	return from, to
}

// note keeps what the chunk says for the evidence.
func (s *streamRelay) note(c wire.Chunk, size int) {
	s.content = s.content || c.Kind == wire.Content
	s.seen |= c.Seen
	s.ended |= c.Ended
	s.done = s.done || c.Kind == wire.Done || c.Kind == wire.Broken
	if c.Reported {
		s.x.rec.PromptTokens, s.x.rec.CompletionTokens = c.Prompt, c.Completion
		s.x.settled = false
	}
	s.x.answered.event(c, size)
}

// readLong looks at the rest of an event that was too long to be kept: it
// counts as content, and that of a last one may tell the usage.
func (s *streamRelay) readLong(c *wire.Chunk, e wire.Event, rest []byte) {
	if !e.Torn {
		return
	}
	c.Text = int64(len(rest))
	if c.Kind == wire.Done {
		c.Usage = wire.ReadTailUsage(rest)
	}
}

// flush sends what was written and stamps what has thereby reached the caller.
func (s *streamRelay) flush(goesOn bool) error {
	if !s.unsent {
		return nil
	}
	s.unsent = false
	if s.held {
		s.held = false
		if err := s.x.flush(s.rc); err != nil {
			return err
		}
	}
	if !s.x.rec.DoneAt.IsZero() {
		return nil // what comes after [DONE] is no part of the answer
	}
	now := s.x.now()
	if !s.x.rec.FirstContentAt.IsZero() {
		s.x.meter.interChunk.Observe(now.Sub(s.x.rec.LastByteAt).Seconds())
	}
	s.x.rec.LastByteAt = now
	if s.content && s.x.rec.FirstContentAt.IsZero() {
		s.x.contentDelivered(now, goesOn && !s.done)
	}
	if s.done {
		if s.broken != nil {
			s.x.note(s.broken)
		} else {
			s.x.completed(now)
		}
		time.AfterFunc(afterDone, s.cancel) // unless the engine ends by itself
	}
	return nil
}

// write passes window[from:to] on.
func (s *streamRelay) write(from, to int) error {
	if from == to || s.frames.conn == nil {
		return s.add(s.window[from:to])
	}
	s.sends(s.window[from:to])
	if err := s.frames.write(from, to); err != nil {
		return s.x.gone()
	}
	return nil
}

// add writes what is not in the window; it is held until it is flushed.
func (s *streamRelay) add(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	s.sends(p)
	s.held = true
	return s.x.send(p)
}

// sends notes what is about to be written.
func (s *streamRelay) sends(p []byte) {
	s.lastByte, s.unsent = p[len(p)-1], true
	s.x.keep(p)
	if s.done { // the end must not be seen before what it means is true
		s.conclude()
	}
}

// conclude settles a stream whose end is about to be sent, and keeps it if all
// of it was there.
func (s *streamRelay) conclude() {
	s.x.answered.whole = s.broken == nil
	s.x.settle()
	if s.x.fill != nil && s.broken == nil && s.finished() {
		s.x.store(s.contentType)
	}
	s.x.fill = nil
}

// finished tells that all choices that were asked for came to their end.
func (s *streamRelay) finished() bool {
	return s.ended == s.seen && bits.OnesCount64(s.ended) >= s.choices
}

// makeRoom grows a full window, or passes on an event that is too long to be
// kept.
func (s *streamRelay) makeRoom() error {
	if len(s.window) < maxHeld {
		s.use(make([]byte, frameHead+min(4*len(s.window), maxHeld)+frameTail))
		s.narrow()
		return nil
	}
	if err := s.write(0, len(s.window)); err != nil {
		return err
	}
	s.filled = 0
	s.x.answered.opaque(int64(len(s.window)))
	s.scan.GiveUp()
	s.x.fill = nil // nobody knows what it says
	return s.flush(true)
}

// end decides what the end of the engine's answer means.
func (s *streamRelay) end(cause error) error {
	if s.x.left() && !s.done {
		return s.x.sourceFailed(cause)
	}
	if err := s.passLineEnd(); err != nil {
		return err
	}
	if !s.x.stopped() { // else the gateway itself tore it
		if ended, err := s.passTail(); ended || err != nil {
			return err
		}
	}
	clean := errors.Is(cause, io.EOF)
	if !s.done && clean && s.finished() {
		// All choices are finished: only the formality is missing.
		s.done = true
		s.x.fill = nil // it was cut all the same
		if err := s.add([]byte("data: [DONE]\n\n")); err != nil {
			return err
		}
		if err := s.flush(false); err != nil {
			return err
		}
	}
	if s.done {
		return nil
	}
	var cut *failure
	if err := s.x.sourceFailed(cause); !errors.As(err, &cut) {
		return err
	}
	if err := s.fail(cut); err != nil {
		return err
	}
	return errAborted
}

// passLineEnd passes what is left of the last event's empty line: its CR ends
// the event, and its LF may come in a segment of its own.
func (s *streamRelay) passLineEnd() error {
	if s.filled == 0 || len(bytes.Trim(s.window[:s.filled], "\r\n")) > 0 {
		return nil
	}
	rest := s.filled
	s.filled = 0
	if err := s.write(0, rest); err != nil {
		return err
	}
	return s.flush(false)
}

// passTail looks at what stands after the last empty line: [DONE] or the text
// of a crash need none. Anything else is half an event, which no client may
// see.
func (s *streamRelay) passTail() (ended bool, err error) {
	if s.filled == 0 {
		return false, nil
	}
	win := append(s.window[:s.filled:s.filled], "\n\n"...)
	event, ok := s.scan.Next(win)
	if !ok {
		return false, nil
	}
	switch kind := s.reader.Read(event).Kind; {
	case kind == wire.Done:
		s.done = true
		if err := s.add(win); err != nil {
			return true, err
		}
		return false, s.flush(false)
	case kind == wire.Failure && !halfObject(event):
		return true, s.fail(failureOf(event))
	}
	return false, nil
}

// halfObject tells that an event's data is the beginning of a JSON object
// whose rest never came.
func halfObject(e wire.Event) bool {
	return e.HasData && bytes.HasPrefix(bytes.TrimSpace(e.Data), []byte("{")) && !json.Valid(e.Data)
}

// fail adds the error as an event of its own, after which the stream ends
// without [DONE].
func (s *streamRelay) fail(f *failure) error {
	s.x.note(f)
	s.x.fill = nil
	s.x.settle()
	event := f.event()
	if s.lastByte == '\r' {
		event = append([]byte("\n"), event...) // an engine that tore CRLF
	}
	if err := s.add(event); err != nil {
		return err
	}
	return s.flush(false)
}

// shrink gives a grown window back as soon as it is not needed any more.
func (s *streamRelay) shrink() {
	if len(s.window) > smallBuffer && s.filled == 0 && !s.full {
		s.use(s.base[:])
		s.narrow()
	}
}

// narrow lets another flood have the window of this one.
func (s *streamRelay) narrow() {
	if s.wide != nil {
		s.x.g.floods.Put(s.wide)
		s.wide = nil
	}
}
