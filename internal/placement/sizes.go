package placement

import (
	"fmt"
	"slices"
)

// sizeWeight is what the weights of all sizes add up to. Integers make sums
// exact and so independent of their order.
const sizeWeight = 1 << 10

// sizeSteps is the length of the table through which a size is found.
const sizeSteps = 256

// Sizes is the distribution of request sizes seen lately. It is immutable and
// may be shared; nil stands for "none seen yet".
type Sizes struct {
	sizes  []int64 // distinct, ascending
	beyond []int64 // beyond[i]: weight of sizes[i:]; one longer than sizes
	shift  uint    // a size's step is size>>shift
	first  [sizeSteps + 1]int32
}

// NewSizes counts sizes of requests, MiB per card; one that asked for several
// cards is listed once for each. None at all gives nil.
func NewSizes(mib []int64) (*Sizes, error) {
	if len(mib) == 0 {
		return nil, nil //nolint:nilnil // nil is the distribution of nothing
	}
	sorted := slices.Sorted(slices.Values(mib))
	if sorted[0] <= 0 || sorted[len(sorted)-1] > maxMiB {
		return nil, fmt.Errorf("request sizes from %d to %d MiB: each must be from 1 to %d", sorted[0], sorted[len(sorted)-1], maxMiB)
	}
	s := &Sizes{}
	for i, size := range sorted {
		if i > 0 && size == sorted[i-1] {
			continue
		}
		s.sizes = append(s.sizes, size)
		s.beyond = append(s.beyond, sizeWeight*int64(len(sorted)-i)/int64(len(sorted)))
	}
	s.beyond = append(s.beyond, 0)
	largest := s.sizes[len(s.sizes)-1]
	for largest>>s.shift >= sizeSteps {
		s.shift++
	}
	for step, i := 0, 0; step <= sizeSteps; step++ {
		for i < len(s.sizes) && s.sizes[i]>>s.shift < int64(step) {
			i++
		}
		s.first[step] = int32(i) //nolint:gosec // far fewer sizes than that
	}
	return s, nil
}

// unusable is how much of a fragment a request is expected not to be able to
// use, times sizeWeight: all of it for each size that does not fit into it.
// (Fragmentation as in Weng et al., "Beware of Fragmentation", USENIX ATC '23,
// for memory alone.)
func (s *Sizes) unusable(free int64) int64 {
	if s == nil {
		return 0
	}
	step := free >> s.shift
	if step >= sizeSteps {
		return 0 // larger than all that was seen
	}
	i := s.first[step]
	for int(i) < len(s.sizes) && s.sizes[i] <= free {
		i++
	}
	return free * s.beyond[i]
}

// recentRequests is how many requests Recent remembers.
const recentRequests = 512

// Recent remembers the sizes of the last 512 requests. It is not safe for
// concurrent use.
type Recent struct {
	owners []string // oldest first
	sizes  map[string]recentSize
	known  *Sizes
	stale  bool
}

type recentSize struct {
	mib   int64
	cards int
}

// Saw remembers a request by its owner's UID: the same one again changes
// nothing, however often it is tried.
func (r *Recent) Saw(owner string, req Request) error {
	if err := req.Check(); err != nil {
		return err
	}
	if r.sizes == nil {
		r.sizes = map[string]recentSize{}
	}
	if _, again := r.sizes[owner]; again {
		return nil
	}
	if len(r.owners) == recentRequests {
		delete(r.sizes, r.owners[0])
		r.owners = slices.Delete(r.owners, 0, 1)
	}
	r.owners = append(r.owners, owner)
	r.sizes[owner] = recentSize{mib: req.MiB, cards: req.Cards}
	r.stale = true
	return nil
}

// Sizes returns the distribution of what was seen.
func (r *Recent) Sizes() (*Sizes, error) {
	if !r.stale {
		return r.known, nil
	}
	var mib []int64
	for _, owner := range r.owners {
		s := r.sizes[owner]
		mib = append(mib, slices.Repeat([]int64{s.mib}, s.cards)...)
	}
	known, err := NewSizes(mib)
	if err != nil {
		return nil, fmt.Errorf("count the sizes of recent requests: %w", err)
	}
	r.known, r.stale = known, false
	return known, nil
}
