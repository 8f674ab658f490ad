// Package wire reads what passes through the gateway of the traffic account
// without re-encoding it: where in a JSON request the bytes of `model` and
// `stream_options` lie, where in a byte stream a server-sent event ends, and
// what such an event says. It keeps no copy and allocates nothing per event.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// maxDepth bounds the nesting that is followed; deeper documents are refused,
// so that a request cannot exhaust the stack.
const maxDepth = 512

var (
	errEnd   = errors.New("the JSON text ends too early")
	errDepth = fmt.Errorf("the JSON text is nested deeper than %d levels", maxDepth)
)

// cursor walks a JSON text and checks its grammar (RFC 8259) on the way.
type cursor struct {
	b []byte
	i int
}

// span is a half-open range of the text.
type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }

func (c *cursor) fail(expected string) error {
	if c.i >= len(c.b) {
		return errEnd
	}
	return fmt.Errorf("invalid JSON at byte %d: found %q, expected %s", c.i, c.b[c.i], expected)
}

// space skips white space and returns the next byte, or 0 at the end.
func (c *cursor) space() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// object calls member for each member of the object at the cursor, with the
// key's raw bytes (without quotes). member must move past the value.
func (c *cursor) object(member func(key []byte) error) error {
	if c.space() != '{' {
		return c.fail("an object")
	}
	c.i++
	if c.space() == '}' {
		c.i++
		return nil
	}
	for {
		if c.space() != '"' {
			return c.fail("a member's name")
		}
		key, err := c.str()
		if err != nil {
			return err
		}
		if c.space() != ':' {
			return c.fail("':'")
		}
		c.i++
		if err := member(key.of(c.b)); err != nil {
			return err
		}
		switch c.space() {
		case ',':
			c.i++
		case '}':
			c.i++
			return nil
		default:
			return c.fail("',' or '}'")
		}
	}
}

// array calls item for each item of the array at the cursor; item must move
// past the value.
func (c *cursor) array(item func() error) error {
	if c.space() != '[' {
		return c.fail("an array")
	}
	c.i++
	if c.space() == ']' {
		c.i++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch c.space() {
		case ',':
			c.i++
		case ']':
			c.i++
			return nil
		default:
			return c.fail("',' or ']'")
		}
	}
}

// skip moves past one value of any kind.
func (c *cursor) skip(depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch ch := c.space(); ch {
	case '"':
		_, err := c.str()
		return err
	case '{':
		return c.object(func([]byte) error { return c.skip(depth + 1) })
	case '[':
		return c.array(func() error { return c.skip(depth + 1) })
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	default:
		return c.number()
	}
}

func (c *cursor) word(w string) error {
	if len(c.b)-c.i < len(w) || string(c.b[c.i:c.i+len(w)]) != w {
		return c.fail(w)
	}
	c.i += len(w)
	return nil
}

func (c *cursor) digits() bool {
	from := c.i
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		c.i++
	}
	return c.i > from
}

// peek returns the byte at the cursor, or 0 at the end.
func (c *cursor) peek() byte {
	if c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

func (c *cursor) number() error {
	if c.peek() == '-' {
		c.i++
	}
	if c.peek() == '0' {
		c.i++
	} else if !c.digits() {
		return c.fail("a value")
	}
	if c.peek() == '.' {
		c.i++
		if !c.digits() {
			return c.fail("a digit")
		}
	}
	if c.peek()|0x20 == 'e' {
		c.i++
		if sign := c.peek(); sign == '+' || sign == '-' {
			c.i++
		}
		if !c.digits() {
			return c.fail("a digit")
		}
	}
	return nil
}

// str moves past the string at the cursor and returns what lies between its
// quotes. Long strings (prompts, images) are most of a request, so that the
// search for the end works on whole words of memory.
func (c *cursor) str() (span, error) {
	c.i++ // the opening quote
	s := span{start: c.i}
	for {
		rest := c.b[c.i:]
		c.i += plainPrefix(rest)
		if c.i >= len(c.b) {
			return s, errEnd
		}
		switch c.b[c.i] {
		case '"':
			s.end = c.i
			c.i++
			return s, nil
		case '\\':
			if err := c.escape(); err != nil {
				return s, err
			}
		default:
			return s, c.fail("an escape instead of a control character")
		}
	}
}

func (c *cursor) escape() error {
	c.i++
	if c.i >= len(c.b) {
		return errEnd
	}
	switch c.b[c.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.i++
		return nil
	case 'u':
		c.i++
		for range 4 {
			if c.i >= len(c.b) {
				return errEnd
			}
			if hexValue(c.b[c.i]) < 0 {
				return c.fail("a hexadecimal digit")
			}
			c.i++
		}
		return nil
	default:
		return c.fail("an escape")
	}
}

func hexValue(ch byte) rune {
	switch {
	case ch >= '0' && ch <= '9':
		return rune(ch - '0')
	case ch >= 'a' && ch <= 'f':
		return rune(ch-'a') + 10
	case ch >= 'A' && ch <= 'F':
		return rune(ch-'A') + 10
	}
	return -1
}

// plainPrefix returns how many bytes precede the first quote, backslash or
// control character. It tests words of eight bytes, and long strings four
// words at a time.
func plainPrefix(b []byte) int {
	i := 0
	for len(b)-i >= 32 {
		w := b[i : i+32]
		if alarm(binary.LittleEndian.Uint64(w))|alarm(binary.LittleEndian.Uint64(w[8:]))|
			alarm(binary.LittleEndian.Uint64(w[16:]))|alarm(binary.LittleEndian.Uint64(w[24:])) != 0 {
			break
		}
		i += 32
	}
	for len(b)-i >= 8 {
		if a := alarm(binary.LittleEndian.Uint64(b[i:])); a != 0 {
			return i + bits.TrailingZeros64(a)/8
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// alarm marks the bytes of v that a string may not contain as they are, by
// their top bits. Flipping bit 1 puts the quote (0x22) right behind the control
// characters, so that both are what is then below 0x21. A byte x is below n
// exactly if (x-n) borrows while its own top bit is clear; a borrow can only
// add a false mark above a true one, so that the lowest mark is exact. (The
// test is known from S. Anderson, Bit Twiddling Hacks, "determine if a word
// has a byte less than n".)
func alarm(v uint64) uint64 {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	low, slash := v^(ones*2), v^(ones*'\\')
	return (((low - ones*0x21) &^ low) | ((slash - ones) &^ slash)) & tops
}
