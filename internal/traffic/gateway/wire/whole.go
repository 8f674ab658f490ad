package wire

// Whole tells whether a JSON object or array that passes in pieces came to its
// end. It looks at brackets and strings only: the grammar is for the reader of
// the answer, a missing end nobody could see. The zero value is ready.
type Whole struct {
	depth    int
	inString bool
	escaped  bool // the last byte was a backslash in a string
	closed   bool // the outermost bracket was
}

// Add looks at the next piece.
func (w *Whole) Add(p []byte) {
	for i := 0; i < len(p); {
		switch {
		case w.escaped:
			w.escaped = false
			i++
		case w.inString:
			if i += plainPrefix(p[i:]); i < len(p) {
				w.inString, w.escaped = p[i] != '"', p[i] == '\\'
				i++
			}
		default:
			w.token(p[i])
			i++
		}
	}
}

// token looks at a byte outside strings.
func (w *Whole) token(b byte) {
	switch b {
	case '"':
		w.inString = true
	case '{', '[':
		w.depth++
	case '}', ']':
		w.depth--
		w.closed = w.depth <= 0
	}
}

// Ended tells that the value is complete.
func (w *Whole) Ended() bool { return w.closed && w.depth == 0 && !w.inString }
