package placement

import (
	"fmt"
	"time"
)

// Sample is what was measured as used on a card, by anybody.
type Sample struct {
	UsedMiB      int64
	AllocatedMiB int64 // by accounts, on this card, when it was taken
	At           time.Time
}

// MeasuredFor is how long a sample says anything about the card.
const MeasuredFor = 5 * time.Second

// Unaccounted is what a sample shows beyond the accounts of its own moment:
// max(0, used − allocated − headroom). Headroom is what driver and runtime may
// use by themselves, normally the card's reserve, which is not counted twice.
// Because it compares with the accounts of the sample's moment, it stays the
// same while allocations are taken away or added in a simulation.
//
// A sample from before or after the last 5 s says nothing: stale is true, and
// nothing is counted.
func (s Sample) Unaccounted(headroomMiB int64, now time.Time) (mib int64, stale bool, err error) {
	for _, v := range []int64{s.UsedMiB, s.AllocatedMiB, headroomMiB} {
		if v < 0 || v > maxMiB {
			return 0, false, fmt.Errorf("measured %d MiB used, %d MiB allocated, headroom %d MiB: each must be from 0 to %d", s.UsedMiB, s.AllocatedMiB, headroomMiB, maxMiB)
		}
	}
	if age := now.Sub(s.At); age > MeasuredFor || age < -MeasuredFor {
		return 0, true, nil
	}
	return max(0, s.UsedMiB-s.AllocatedMiB-headroomMiB), false, nil
}
