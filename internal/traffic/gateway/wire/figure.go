package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

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
		r.Choices = whole(literal)
	case "best_of":
		r.BestOf = whole(literal)
	case "max_tokens":
		r.MaxTokens = whole(literal)
	case "max_completion_tokens":
		r.MaxCompletionTokens = whole(literal)
	case "max_output_tokens":
		r.MaxOutputTokens = whole(literal)
	}
	return nil
}

// maxFigure is the largest figure that counts as itself.
const maxFigure = 1 << 40

// whole reads a count as lenient engines do, which take 3, 3.0, 3e0, "3" and
// " 3\n", however its characters are written, for the same; anything else is 0.
func whole(literal []byte) int64 {
	text := string(literal)
	if literal[0] == '"' && json.Unmarshal(literal, &text) != nil {
		return 0
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 64)
	if (err != nil && !math.IsInf(n, 1)) || !(n > 0) {
		return 0
	}
	return int64(min(n, maxFigure))
}
