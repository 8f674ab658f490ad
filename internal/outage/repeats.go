package outage

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// RepeatEvery is how often the log has one kind of thing that may happen
	// with every call.
	RepeatEvery = time.Minute
	// maxKinds are told apart at once; beyond, all others are one kind.
	maxKinds = 1000
)

// Repeats tells the log of things that outsiders can make happen with every
// call: of each kind the first at once, and how many more there were with the
// next one, a minute later at the soonest. Its methods may be called at once.
type Repeats struct {
	log   *slog.Logger
	clock func() time.Time

	mu    sync.Mutex
	kinds map[string]*repeated
}

type repeated struct {
	told time.Time
	more int // untold ones since then
}

// NewRepeats returns one that has told of nothing yet.
func NewRepeats(log *slog.Logger, clock func() time.Time) *Repeats {
	return &Repeats{log: log, clock: clock, kinds: map[string]*repeated{}}
}

// Warn tells of one more of a kind, or counts it.
func (r *Repeats) Warn(kind, message string, args ...any) {
	if more, tell := r.count(kind); tell {
		if more > 0 {
			args = append(args, "more", more) // like it, since the last that was told
		}
		r.log.Warn(message, args...)
	}
}

func (r *Repeats) count(kind string) (more int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	k := r.kind(kind, now)
	if now.Sub(k.told) < RepeatEvery {
		k.more++
		return 0, false
	}
	more, k.more, k.told = k.more, 0, now
	return more, true
}

// kind finds or makes one. Those that were
// told of more than a minute ago make room, with their counts.
func (r *Repeats) kind(kind string, now time.Time) *repeated {
	if k := r.kinds[kind]; k != nil {
		return k
	}
	if len(r.kinds) >= maxKinds {
		for name, k := range r.kinds {
			if now.Sub(k.told) >= RepeatEvery {
				delete(r.kinds, name)
			}
		}
	}
	if len(r.kinds) >= maxKinds {
		kind = ""
	}
	k := r.kinds[kind]
	if k == nil {
		k = &repeated{}
		r.kinds[kind] = k
	}
	return k
}
