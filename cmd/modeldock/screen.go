package main

import (
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"
)

// screen is w, and for a terminal what keeps other people's words from
// controlling it: what models and engines say is shown and not obeyed. Into a
// file or a pipe everything goes as it is.
func screen(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	return &shown{w: w}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// hidden are characters that act instead of being seen: controls, and those
// that turn the direction of what follows.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r == '\u061c' || r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// within is what a terminal would take the next character for.
type within int

const (
	words within = iota
	escape
	control // ESC [ …, up to its letter
	command // ESC ] … and the like, up to BEL, ESC \ or the line's end
)

// shown leaves out what would control a terminal: whole sequences, so that
// coloured output stays readable, and every other character that is not seen
// but line feeds and tabs.
type shown struct {
	w io.Writer

	mu   sync.Mutex // a process's parts write beside each other
	in   within
	cr   bool   // a return that may belong to a line's end
	part []byte // of a character that is cut
}

// Write implements io.Writer.
func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.part, p...)
	out := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		out = s.take(out, r)
	}
	s.part = append([]byte(nil), text...)
	if _, err := s.w.Write(out); err != nil {
		return 0, err //nolint:wrapcheck // a terminal's own
	}
	return len(p), nil
}

func (s *shown) take(out []byte, r rune) []byte {
	if s.cr && r != '\n' { // a line drawn over becomes one of its own
		out = append(out, '\n')
	}
	s.cr = r == '\r'
	switch {
	case r == '\x1b':
		s.in = escape
		return out
	case r == '\n':
		s.in = words
		return append(out, '\n')
	case s.in == escape:
		s.in = afterEscape(r)
		return out
	case s.in == control:
		if r < ' ' || r > '?' { // neither a parameter nor between
			s.in = words
		}
		return out
	case s.in == command:
		if r == '\a' || r == '\u009c' {
			s.in = words
		}
		return out
	case r == '\u009b':
		s.in = control
		return out
	case r == '\u0090', r == '\u0098', r == '\u009d', r == '\u009e', r == '\u009f':
		s.in = command
		return out
	case hidden(r) && r != '\t':
		return out
	}
	return utf8.AppendRune(out, r) // what is no UTF-8 is shown as such
}

// afterEscape is what ESC and a character begin.
func afterEscape(r rune) within {
	switch r {
	case '[':
		return control
	case ']', 'P', 'X', '^', '_':
		return command
	}
	return words
}
