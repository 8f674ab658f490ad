package wire

import "bytes"

// pattern is what the content chunks of a stream have in common: everything
// but the text. A chunk that differs from one that was read only between the
// same quotes has the same structure, and need not be walked again.
type pattern struct {
	chunk        Chunk
	frame        [maxFrame]byte
	before, size int // frame[:before] stands before the text, frame[before:size] after it
}

// maxFrame is how long the common part may be; engines use some 200 bytes.
const maxFrame = 384

// learn keeps the pattern of data, whose content is at text.
func (p *pattern) learn(c Chunk, data []byte, text span) {
	if c.Kind != Content || c.Reported || data[text.start] != '"' || len(data)-(text.end-text.start)+2 > maxFrame {
		return
	}
	p.chunk = c
	p.chunk.Text -= int64(text.end - text.start - len(`""`)) // of a chunk without this text
	p.before = copy(p.frame[:], data[:text.start+1])         // with the opening quote
	p.size = p.before + copy(p.frame[p.before:], data[text.end-1:])
}

// matches tells whether data differs from what was learned only in its text,
// which must be there and be plain.
func (p *pattern) matches(data []byte) bool {
	text := len(data) - p.size
	if p.size == 0 || text <= 0 {
		return false
	}
	end := p.before + text
	return bytes.Equal(data[:p.before], p.frame[:p.before]) &&
		bytes.Equal(data[end:], p.frame[p.before:p.size]) &&
		plainPrefix(data[p.before:end]) == text
}

// with is what a chunk says that matches: it has another text.
func (p *pattern) with(data []byte) Chunk {
	c := p.chunk
	c.Text += int64(len(data) - p.size)
	return c
}
