// Package wiretime is the one spelling of a time in the management API:
// RFC 3339 in UTC with exactly six digits of the second's fraction.
package wiretime

import (
	"fmt"
	"time"
)

// Layout is the spelling, for time.Format.
const Layout = "2006-01-02T15:04:05.000000Z"

// Time marshals as Layout; the zero time is never sent (use a nil pointer).
type Time time.Time

// Pointer returns nil for the zero time.
func Pointer(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	w := Time(t)
	return &w
}

// Std returns the standard library's time; zero for nil.
func (t *Time) Std() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Time(*t)
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, Layout), nil
}

// UnmarshalText accepts every RFC 3339 time.
func (t *Time) UnmarshalText(b []byte) error {
	p, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	*t = Time(p)
	return nil
}
