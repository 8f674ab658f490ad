package agent

import (
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/device"
)

// SilenceLimit is how long the last reading counts when no other one comes.
// With readings each second, whatever happens to a card or to its driver is
// known within five.
const SilenceLimit = 4 * time.Second

// tracker joins readings to what is true of the cards now.
type tracker struct {
	cards []device.Card // in the order of their indices
	last  time.Time     // of the last good reading
	why   string        // no good one came since
}

// good takes a reading. A card that is in it no more has fallen off the bus
// and stays listed, because models may still hold its memory. One whose size
// cannot be read keeps the one that it had.
func (t *tracker) good(cards []device.Card, now time.Time) {
	next := make([]device.Card, 0, len(cards))
	for _, c := range cards {
		if at := slices.IndexFunc(t.cards, func(have device.Card) bool { return have.UUID == c.UUID }); at >= 0 && c.Total <= 0 {
			c.Total = t.cards[at].Total
		}
		if c.Total > 0 { // otherwise nobody knows what it is good for
			next = append(next, c)
		}
	}
	for _, have := range t.cards {
		if !slices.ContainsFunc(cards, func(c device.Card) bool { return c.UUID == have.UUID }) {
			have.Healthy, have.Reason, have.Used = false, "the driver does not report it any more", 0
			next = append(next, have)
		}
	}
	slices.SortStableFunc(next, func(a, b device.Card) int { return a.Index - b.Index })
	t.cards, t.last, t.why = next, now, ""
}

// failed notes that no reading came.
func (t *tracker) failed(err error) { t.why = err.Error() }

// now is what counts at this time: no card is healthy of which nothing has
// been heard for too long.
func (t *tracker) now(now time.Time) []device.Card {
	cards := slices.Clone(t.cards)
	age := now.Sub(t.last)
	if age <= SilenceLimit {
		return cards
	}
	why := fmt.Sprintf("nothing has been read of it for more than %s", SilenceLimit)
	if t.why != "" {
		why += ": " + t.why
	}
	for i := range cards {
		if cards[i].Healthy {
			cards[i].Healthy, cards[i].Reason = false, why
		}
	}
	return cards
}

// same reports whether two lists say the same to those who place models; the
// memory in use changes all the time and is published elsewhere.
func same(a, b []device.Card) bool {
	return slices.EqualFunc(a, b, func(x, y device.Card) bool {
		x.Used, y.Used = 0, 0
		return x == y
	})
}
