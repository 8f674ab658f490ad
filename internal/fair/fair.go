// Package fair divides what is scarce among those who want more of it than
// there is.
package fair

import (
	"math"
	"slices"
)

// EvenShare is how many each may keep so that all together keep most at most,
// and whoever has less than that loses nothing.
func EvenShare(held []int64, most int64) int64 {
	ascending := slices.Sorted(slices.Values(held))
	for n, h := range ascending {
		share := most / int64(len(ascending)-n)
		if h > share {
			return share
		}
		most -= h
	}
	return math.MaxInt64 // all of them fit
}
