package wire

import (
	"bytes"
	"errors"
	"slices"
)

// errTwice says that a document has one member twice: its readers may
// disagree about which of them counts.
var errTwice = errors.New("a member of the JSON object is there twice")

// Canonical spells a request's body in one way, whatever the order of its
// members and its white space, and leaves out the members that skip names.
// Inside the members the order stays: a model may well see it, for example in
// the description of a tool.
func Canonical(body []byte, skip func(name string) bool) ([]byte, error) {
	type member struct{ name, value []byte }
	var members []member
	c := &cursor{b: body}
	err := c.object(func(raw []byte) error {
		c.space()
		start := c.i
		if err := c.skip(1); err != nil {
			return err
		}
		if !skip(unquote(raw)) {
			members = append(members, member{raw, c.b[start:c.i]})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	out := append(make([]byte, 0, len(body)), '{')
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(m.name, members[i-1].name) {
				return nil, errTwice
			}
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), m.name...), `":`...)
		out = appendCompact(out, m.value)
	}
	return append(out, '}'), nil
}

// appendCompact appends a valid JSON value without the white space between
// its tokens.
func appendCompact(out, value []byte) []byte {
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			c := cursor{b: value, i: i}
			_, _ = c.str() // it was valid before
			out = append(out, value[i:c.i]...)
			i = c.i
		default:
			out = append(out, value[i])
			i++
		}
	}
	return out
}
