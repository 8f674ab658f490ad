package placement

import (
	"fmt"
	"slices"
)

const (
	// weights of all sizes together, and what a MiB costs in a rank. Integers
	// make sums exact and so independent of their order.
	weightBits = 10
	weights    = int64(1) << weightBits
	// A fragment's size is looked up in steps of 128 MiB, up to 512 GiB.
	stepShift = 7
	steps     = 4096
	// mostSizes bounds what is counted, so that no sum overflows.
	mostSizes = 1 << 12
)

// Sizes is the distribution of request sizes seen lately. It is immutable and
// may be shared; nil stands for "none seen yet".
type Sizes struct {
	slope   int64        // weight of all sizes
	usable  [steps]int64 // of a fragment, by step: expected use × weights
	several bool         // some asked for several cards
}

// NewSizes counts what requests asked for. None at all gives nil.
func NewSizes(seen []Request) (*Sizes, error) {
	if len(seen) == 0 {
		return nil, nil //nolint:nilnil // nil is the distribution of nothing
	}
	if len(seen) > mostSizes {
		return nil, fmt.Errorf("%d requests are too many to count sizes of; at most %d", len(seen), mostSizes)
	}
	t := newTally()
	for _, r := range seen {
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("count request sizes: %w", err)
		}
		t.add(r, 1)
	}
	return t.sizes(), nil
}

// tally adds up what requests asked for.
type tally struct {
	asked   map[int64]int64 // memory, by size
	all     int64
	several int // requests for several cards
}

func newTally() tally { return tally{asked: map[int64]int64{}} }

// add counts a request, or with -1 counts it no more.
func (t *tally) add(r Request, sign int64) {
	size := min(max(r.MiB, 1<<stepShift), steps<<stepShift)
	memory := sign * size * int64(r.Cards)
	t.asked[size] += memory
	t.all += memory
	if t.asked[size] == 0 {
		delete(t.asked, size)
	}
	if r.Cards > 1 {
		t.several += int(sign)
	}
}

func (t *tally) sizes() *Sizes {
	s := &Sizes{several: t.several > 0}
	for mib, memory := range t.asked {
		s.count(mib, weights*memory/t.all)
	}
	for i := 1; i < steps; i++ {
		s.usable[i] += s.usable[i-1]
	}
	return s
}

// count notes where one more request of a size fits into a fragment.
func (s *Sizes) count(mib, weight int64) {
	s.slope += weight
	for at := mib; at>>stepShift < steps; at += mib {
		s.usable[at>>stepShift] += weight * mib
	}
}

// unusable is how much of a fragment is expected to be lost, × weights: what
// is left over when it is filled with requests of one size, on average over
// the sizes, each as likely as memory is asked for in it. (A fragmentation
// gradient in the sense of Weng et al., "Beware of Fragmentation", USENIX ATC
// '23, but with remainders: all or nothing gave up large fragments too soon.)
// It is exact to a step of 128 MiB; whether a request fits is always exact.
func (s *Sizes) unusable(free int64) int64 {
	if s == nil {
		return 0
	}
	step := free >> stepShift
	if step >= steps {
		step, free = steps-1, steps<<stepShift-1
	}
	return s.slope*free - s.usable[step]
}

// recentRequests is how many requests Recent remembers.
const recentRequests = 512

// Recent remembers the last 512 requests. It is not safe for concurrent use.
type Recent struct {
	owners   []string // oldest first
	requests map[string]Request
	tally    tally
	known    *Sizes
	stale    bool
}

// Saw remembers a request by its owner's UID: the same one again changes
// nothing, however often it is tried.
func (r *Recent) Saw(owner string, req Request) error {
	if err := req.Check(); err != nil {
		return err
	}
	if r.requests == nil {
		r.requests, r.tally = map[string]Request{}, newTally()
	}
	if _, again := r.requests[owner]; again {
		return nil
	}
	if len(r.owners) == recentRequests {
		r.tally.add(r.requests[r.owners[0]], -1)
		delete(r.requests, r.owners[0])
		r.owners = slices.Delete(r.owners, 0, 1)
	}
	r.owners = append(r.owners, owner)
	r.requests[owner] = Request{MiB: req.MiB, Cards: req.Cards}
	r.tally.add(req, 1)
	r.stale = true
	return nil
}

// Sizes returns the distribution of what was seen.
func (r *Recent) Sizes() *Sizes {
	if r.stale {
		r.known, r.stale = r.tally.sizes(), false
	}
	return r.known
}
