package gateway

import (
	"sync"
	"time"

	"modeldock.io/internal/traffic"
)

// What a tenant's refused requests leave records of: so many at once, and so
// many per second.
const (
	rejectionsAtOnce    = 200
	rejectionsPerSecond = 20
)

// rejections bounds the records of requests that cost nothing but their
// record: a caller makes any number of them, and they tell nothing new.
type rejections struct {
	mu      sync.Mutex
	tenants map[string]*allowance
}

// allowance is a bucket of records.
type allowance struct {
	left float64
	at   time.Time
}

// record tells whether one more of a tenant is recorded.
func (r *rejections) record(tenant string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.tenants[tenant]
	if a == nil {
		if r.tenants == nil {
			r.tenants = map[string]*allowance{}
		}
		a = &allowance{left: rejectionsAtOnce, at: now}
		r.tenants[tenant] = a // only who has a key gets here
	}
	a.left = min(rejectionsAtOnce, a.left+max(0, now.Sub(a.at).Seconds())*rejectionsPerSecond)
	a.at = now
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}

// worthless tells that the request was refused at once: no model worked for
// it, and it did not wait.
func worthless(i *traffic.Inference) bool {
	return i.SentAt.IsZero() && i.QueuedFor == 0 && i.Outcome != traffic.Completed
}
