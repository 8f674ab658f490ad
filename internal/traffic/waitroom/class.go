package waitroom

import "fmt"

// Class is a request's priority. The zero value is the usual one.
type Class int8

// The classes, by rising priority.
const (
	Batch       Class = -1
	Default     Class = 0
	Interactive Class = 1
)

// classes are all of them, the most urgent first.
const classes = 3

// level is the class's place among the lines, 0 for the most urgent.
func (c Class) level() int { return int(Interactive - min(max(c, Batch), Interactive)) }

func (c Class) String() string {
	return [classes]string{"interactive", "default", "batch"}[c.level()]
}

// ParseClass reads a class by its name.
func ParseClass(s string) (Class, error) {
	for c := Batch; c <= Interactive; c++ {
		if c.String() == s {
			return c, nil
		}
	}
	return Default, fmt.Errorf("a priority is interactive, default or batch, not %.40q", s)
}
