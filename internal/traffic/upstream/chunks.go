package upstream

import (
	"errors"
	"io"
)

// chunks decodes a chunked body (RFC 9112, 7.1) where it was read to: the frames
// between the data are left out, and the data moved together. A stream then
// needs no buffer between the connection and its reader's.
type chunks struct {
	source  io.Reader // the connection
	ahead   []byte    // what was read of the body with the head
	state   chunkState
	left    int64 // data of the current chunk; its size while that is read
	digits  int   // of that size
	framing int   // bytes of frames since the last data
	extra   bool  // there was something after the end
}

type chunkState int

const (
	inSize    chunkState = iota
	inPadding            // blanks after the size
	inExtension
	sizeEnds // its CR was there
	inData
	dataEnds // CR
	dataEnded
	lineBegins // of the trailer
	inLine
	lineEnds // the CR of an empty one was there
	bodyEnded
)

const (
	// maxFraming bounds what an engine may say between two pieces of data.
	maxFraming = 64 << 10
	maxDigits  = 12 // 256 TiB
)

var errChunks = errors.New("the engine's answer is not chunked as it says")

// Read reads once from the connection, and again while that brings nothing but
// frames.
func (c *chunks) Read(p []byte) (int, error) {
	if c.state == bodyEnded {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := c.fill(p)
		out, wrong := c.decode(p[:n])
		switch {
		case wrong != nil:
			return out, wrong
		case c.state == bodyEnded:
			return out, io.EOF
		case errors.Is(err, io.EOF):
			return out, io.ErrUnexpectedEOF
		case out > 0 || err != nil:
			return out, err
		}
	}
}

func (c *chunks) fill(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.source.Read(p) //nolint:wrapcheck // a connection's errors are the system's
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// decode leaves the data at the beginning of p and returns how much it is.
func (c *chunks) decode(p []byte) (out int, err error) {
	for i := 0; i < len(p); {
		switch c.state {
		case inData:
			n := int(min(c.left, int64(len(p)-i)))
			copy(p[out:], p[i:i+n])
			out, i, c.left = out+n, i+n, c.left-int64(n)
			if c.left == 0 {
				c.state, c.framing = dataEnds, 0
			}
		case bodyEnded:
			c.extra = true
			return out, nil
		default:
			if c.framing++; c.framing > maxFraming || !c.frame(p[i]) {
				return out, errChunks
			}
			i++
		}
	}
	return out, nil
}

// frame takes one byte that is no data, and tells whether it may stand there.
// It is as strict as net/http, for which lines may end in LF alone only in the
// trailer.
func (c *chunks) frame(b byte) bool {
	switch c.state {
	case inSize:
		return c.size(b)
	case inPadding:
		if b == '\r' {
			c.state = sizeEnds
		}
		return b == '\r' || b == ' ' || b == '\t'
	case inExtension:
		if b == '\r' {
			c.state = sizeEnds
		}
		return b != '\n'
	case sizeEnds:
		return b == '\n' && c.begin()
	case dataEnds:
		c.state = dataEnded
		return b == '\r'
	case dataEnded:
		c.state, c.left, c.digits = inSize, 0, 0
		return b == '\n'
	case lineBegins:
		switch b {
		case '\r':
			c.state = lineEnds
		case '\n':
			c.state = bodyEnded
		default:
			c.state = inLine
		}
	case inLine:
		if b == '\n' {
			c.state = lineBegins
		}
	case lineEnds:
		c.state = bodyEnded
		return b == '\n'
	case inData, bodyEnded: // decode takes these
		return false
	}
	return true
}

func (c *chunks) size(b byte) bool {
	digit := int64(-1)
	switch {
	case b >= '0' && b <= '9':
		digit = int64(b - '0')
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		digit = int64(b|0x20-'a') + 10
	}
	switch {
	case digit >= 0:
		c.digits++
		c.left = c.left<<4 | digit
		return c.digits <= maxDigits
	case c.digits == 0:
		return false
	case b == '\r':
		c.state = sizeEnds
	case b == ' ' || b == '\t':
		c.state = inPadding
	case b == ';':
		c.state = inExtension
	default:
		return false
	}
	return true
}

// begin enters the chunk whose size is known.
func (c *chunks) begin() bool {
	c.state = inData
	if c.left == 0 {
		c.state = lineBegins
	}
	return true
}
