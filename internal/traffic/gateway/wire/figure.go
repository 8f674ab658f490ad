package wire

import "strconv"

// scanFigure moves past a number that says how much is asked for, or how. What
// is no number is for the engine to refuse.
func (r *Request) scanFigure(c *cursor, key string) error {
	c.space()
	start := c.i
	if err := c.skip(1); err != nil {
		return err
	}
	literal := c.b[start:c.i]
	switch key {
	case "temperature":
		v, err := strconv.ParseFloat(string(literal), 64)
		r.Repeatable = r.Repeatable || err == nil && v == 0
	case "seed":
		r.Repeatable = r.Repeatable || literal[0] == '-' || literal[0]-'0' <= 9
	case "n":
		r.Choices = max(r.Choices, whole(literal))
	default:
		r.MaxTokens = max(r.MaxTokens, whole(literal))
	}
	return nil
}

// whole reads a plain count; anything else, and what is absurdly large, is 0.
func whole(literal []byte) int64 {
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n
}
