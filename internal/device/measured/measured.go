// Package measured is what agents saw of the memory in use on their cards
// (account 2), on its way to those who place models or show cards. Nothing
// correct depends on it: who reads it also gets its age, and what is too old
// is no answer.
package measured

import "time"

// Limits of age.
const (
	// FreshFor is how old a sample may be to count.
	FreshFor = 5 * time.Second
	// KeptFor is how long the sample of a node that says nothing any more is
	// kept, to show since when.
	KeptFor = time.Hour
)

// Card is what was measured of one card.
type Card struct {
	Node    string
	UsedMiB int64 // by anybody, ours included
	// Age is how long ago that was; by it the reader can tell which of its own
	// allocations the sample may already contain.
	Age time.Duration
}

// Fresh reports whether the sample is young enough to place models by.
func (c Card) Fresh() bool { return c.Age <= FreshFor }

// Use says what became of a question, for a metric.
type Use string

// What becomes of questions.
const (
	Fresh  Use = "fresh"
	Stale  Use = "stale"  // ignored: too old
	Absent Use = "absent" // nothing is known of the card
)
