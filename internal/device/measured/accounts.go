package measured

import "time"

// Accounts remembers for a while what was allocated on each card, so that a
// sample of the memory in use can be compared with the accounts of its own
// moment. The zero value is ready. It is not for several goroutines at once.
type Accounts struct {
	pictures []picture // oldest first
}

type picture struct {
	at        time.Time
	allocated map[string]int64
}

// Note remembers what is allocated now, in MiB by the cards' uuids. The map
// must not be changed afterwards.
func (a *Accounts) Note(now time.Time, allocated map[string]int64) {
	a.pictures = append(a.pictures, picture{now, allocated})
	// The last one from before the oldest sample that counts is still needed.
	for len(a.pictures) > 2 && now.Sub(a.pictures[1].at) > FreshFor {
		a.pictures = a.pictures[1:]
	}
}

// Since is the most that was allocated on a card from then on. A sample may
// show a model that was placed a moment after the accounts were noted, or one
// that has ended a moment ago: with the most of the time in between, neither
// looks like memory that is nobody's. ok is false where nothing was noted yet.
func (a *Accounts) Since(card string, then time.Time) (mib int64, ok bool) {
	for i, p := range a.pictures {
		if i+1 < len(a.pictures) && !a.pictures[i+1].at.After(then) {
			continue // a later one was true by then
		}
		mib, ok = max(mib, p.allocated[card]), true
	}
	return mib, ok
}
