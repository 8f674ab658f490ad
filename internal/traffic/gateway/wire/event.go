package wire

import "bytes"

// Event is one server-sent event, or what stands between two empty lines.
type Event struct {
	End     int    // offset in the window of the byte after it
	Data    []byte // its data lines, joined by LF; valid until the next call
	HasData bool
	Failed  bool   // it says "event: error"
	Named   bool   // it has another name than that and SSE's own "message"
	Ends    Ending // what its name says about the end of the answer
	Stray   []byte // the first line that is no field at all: text of a crash
	Torn    bool   // its beginning was given up, see GiveUp
}

// EventScanner finds where events end in a window of bytes that grows at its
// end and is shifted at its start. Lines end in LF, CRLF or CR, and any of
// them may be torn over two reads. The zero value is ready.
type EventScanner struct {
	pos    int  // the first byte that was not looked at
	line   int  // where the current line begins
	tornCR bool // the last line ended in CR as the last byte known
	begun  bool // the first line of the stream is behind
	torn   bool // the current event's beginning was given up
	inLine bool // so was the current line's

	opened bool // the current event has a line that is no comment
	lines  int  // data lines of the current event
	data   span // the only data line
	joined []byte
	failed bool
	named  bool
	ends   Ending
	stray  span
	strays bool
}

// Next returns the next complete event of win; false if more bytes are needed.
// A comment that stands before an event's first field counts as one of its
// own, so that a keep-alive need not wait for an empty line.
// What it returned before must still be at the same place, unless Shift said
// otherwise.
func (s *EventScanner) Next(win []byte) (Event, bool) {
	for {
		if s.tornCR && s.pos < len(win) {
			s.tornCR = false
			if win[s.pos] == '\n' {
				s.pos++
				s.line = s.pos
			}
		}
		end, next, ok := s.lineEnd(win)
		if !ok {
			s.pos = len(win)
			return Event{}, false
		}
		start, first := s.line, !s.begun
		s.pos, s.line, s.begun = next, next, true
		switch {
		case s.inLine: // the rest of a line that was given up
			s.inLine = false
		case end == start:
			return s.finish(win), true
		case win[start] == ':':
			if !s.opened {
				return s.finish(win), true
			}
		case !s.torn:
			s.opened = true
			if first {
				start += len(win[start:end]) - len(bytes.TrimPrefix(win[start:end], []byte("\xef\xbb\xbf")))
			}
			s.field(win, span{start, end})
		}
	}
}

// GiveUp tells that the whole window was passed on in the middle of an event
// that is too long to be kept: what comes is only searched for its end.
func (s *EventScanner) GiveUp() {
	s.inLine = s.inLine || s.pos > s.line
	s.pos, s.line = 0, 0
	s.torn, s.opened = true, true
	s.lines, s.joined, s.failed, s.named, s.strays = 0, nil, false, false, false // what ends the answer stays known
}

// Shift tells that the first n bytes of the window were dropped. They must
// belong to events that Next has returned.
func (s *EventScanner) Shift(n int) {
	s.pos -= n
	s.line -= n
	s.data = span{s.data.start - n, s.data.end - n}
	s.stray = span{s.stray.start - n, s.stray.end - n}
}

// lineEnd returns where the current line ends and where the next one begins.
func (s *EventScanner) lineEnd(win []byte) (end, next int, ok bool) {
	rest := win[s.pos:]
	lf := bytes.IndexByte(rest, '\n')
	if lf >= 0 {
		rest = rest[:lf]
	}
	cr := bytes.IndexByte(rest, '\r')
	switch {
	case cr >= 0:
		end, next = s.pos+cr, s.pos+cr+1
		if next == len(win) {
			s.tornCR = true
		} else if win[next] == '\n' {
			next++
		}
		return end, next, true
	case lf >= 0:
		return s.pos + lf, s.pos + lf + 1, true
	}
	return 0, 0, false
}

func (s *EventScanner) field(win []byte, line span) {
	text := line.of(win)
	colon := bytes.IndexByte(text, ':')
	name, value := text, span{line.end, line.end}
	if colon >= 0 {
		name = text[:colon]
		value.start = line.start + colon + 1
		if value.start < value.end && win[value.start] == ' ' {
			value.start++
		}
	}
	switch {
	case string(name) == "data":
		s.addData(win, value)
	case string(name) == "event":
		s.failed, s.named = eventName(value.of(win))
		s.ends = endingOf(value.of(win))
	case !fieldName(name) && !s.strays:
		s.stray, s.strays = line, true
	}
}

func (s *EventScanner) addData(win []byte, value span) {
	switch s.lines {
	case 0:
		s.data = value
	case 1:
		s.joined = append(s.joined[:0], s.data.of(win)...)
		fallthrough
	default:
		s.joined = append(s.joined, '\n')
		s.joined = append(s.joined, value.of(win)...)
	}
	s.lines++
}

// eventName tells what an event's name means; the last one given counts.
func eventName(name []byte) (failed, named bool) {
	switch string(name) {
	case "error":
		return true, false
	case "", "message":
		return false, false
	}
	return false, true
}

// fieldName tells whether a line could be a field that SSE wants ignored; a
// comment has the empty name.
func fieldName(name []byte) bool {
	for _, ch := range name {
		letter := ch|0x20 >= 'a' && ch|0x20 <= 'z'
		if !letter && (ch < '0' || ch > '9') && ch != '-' && ch != '_' {
			return false
		}
	}
	return true
}

// finish makes the event of what the lines said and begins the next one.
func (s *EventScanner) finish(win []byte) Event {
	e := Event{End: s.pos, Failed: s.failed, Named: s.named, Ends: s.ends, HasData: s.lines > 0, Torn: s.torn}
	switch {
	case s.lines == 1:
		e.Data = s.data.of(win)
	case s.lines > 1:
		e.Data = s.joined
	}
	if s.strays {
		e.Stray = s.stray.of(win)
	}
	if cap(s.joined) > maxKeptJoin {
		s.joined = nil
	}
	s.lines, s.data, s.failed, s.named, s.strays = 0, span{}, false, false, false
	s.torn, s.opened, s.ends = false, false, Open
	return e
}

// maxKeptJoin is how much room for joined data lines a stream keeps.
const maxKeptJoin = 4 << 10
