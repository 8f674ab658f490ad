// Package waitroom is where the traffic account lets requests wait for a model
// that has no ready replica, or none with room: bounded in number, memory and
// time, fair between tenants, and ended when a place is free or when there is
// no hope left.
//
// The room itself knows neither endpoints nor HTTP. It is given a function
// that tries to take a place, and hands what it took to whose turn it is, so
// that a newcomer never overtakes those who wait.
package waitroom

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// The reasons for which a request may not wait, or not any longer.
var (
	// ErrFull means that as many requests wait for the key as may.
	ErrFull = errors.New("waiting room is full")
	// ErrTenantFull means that the tenant has as much waiting as one may.
	ErrTenantFull = errors.New("tenant's share of the waiting room is full")
	// ErrMemory means that all waiting requests together hold as much memory
	// as they may.
	ErrMemory = errors.New("waiting room's memory is full")
	// ErrEvicted means that the request made room for one of higher priority,
	// or of a tenant that had less waiting.
	ErrEvicted = errors.New("made room for another request")
	// ErrTimeout means that no place became free in the time allowed.
	ErrTimeout = errors.New("waited too long")
)

// Bounds limit what waits for all keys together.
type Bounds struct {
	TenantRequests int   // of one tenant
	TenantBytes    int64 // of one tenant
	Bytes          int64 // of all
}

// Config is what a room works with. N is what a request needs, G a place.
type Config[K comparable, N, G any] struct {
	// Take tries to get a place without blocking, for a newcomer or for one
	// that waited. It is called with the room's lock held and must not call
	// back.
	Take func(k K, need N, waited bool) (G, bool)
	Now  func() time.Time
	Bounds
	// Check is asked every CheckEvery per key that has waiters; its error ends
	// their wait. Notifications are hints, this is what they are backed by.
	Check      func(K) error
	CheckEvery time.Duration
}

// Guest is one request that may have to wait.
type Guest[N any] struct {
	Need       N
	Tenant     string
	Class      Class
	Tokens     int64         // what it is expected to use
	Bytes      int64         // what it holds in memory while it waits
	MaxWaiting int           // requests of the key, this one included
	Timeout    time.Duration // zero: do not wait at all
	// Choosy is set if a place that suits others may not suit this request;
	// then it does not hold up those behind it.
	Choosy bool
	// Progress, if given, is called on the waiting goroutine after
	// ProgressFirst and then every ProgressEvery; its error ends the wait.
	Progress                     func(Outlook) error
	ProgressFirst, ProgressEvery time.Duration
}

// Room holds one line per key K and hands out places G. All methods may be
// called concurrently.
type Room[K comparable, N, G any] struct {
	cfg   Config[K, N, G]
	total atomic.Int64

	mu      sync.Mutex
	queues  map[K]*queue
	tenants map[string]*holding
	bytes   int64
	closed  error
	swept   time.Time
}

// queue is one key's line with what is known about it.
type queue struct {
	line  *line
	pace  pace
	check *time.Timer // while somebody waits

	foretold   map[*entry]int
	foretoldAt time.Time
}

// holding is what one tenant has waiting for all keys.
type holding struct {
	requests int
	bytes    int64
}

// ticket is one waiting request; its fields are guarded by the room's lock
// until settled is closed.
type ticket[N, G any] struct {
	entry
	need    N
	choosy  bool
	settled chan struct{}
	done    bool
	place   G
	err     error
}

// New returns an empty room.
func New[K comparable, N, G any](cfg Config[K, N, G]) *Room[K, N, G] {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Room[K, N, G]{cfg: cfg, queues: map[K]*queue{}, tenants: map[string]*holding{}, swept: cfg.Now()}
}

// Wait returns a place for key k: at once if nobody waits and one is free,
// otherwise in turn. It fails with one of the errors of this package, the
// error that Fail, Close or Config.Check gave, or the cause for which ctx
// ended. The tenant is charged for the place that it gets; see Charge.
func (r *Room[K, N, G]) Wait(ctx context.Context, k K, g Guest[N]) (G, error) {
	var none G
	place, tk, err := r.join(k, &g)
	if tk == nil {
		return place, err
	}
	timer := time.NewTimer(g.Timeout)
	defer timer.Stop()
	var progress *time.Timer
	var tick <-chan time.Time
	if g.Progress != nil {
		progress = time.NewTimer(g.ProgressFirst)
		defer progress.Stop()
		tick = progress.C
	}
	for {
		var reason error
		select {
		case <-tk.settled:
			return tk.place, tk.err
		case <-tick:
			if reason = g.Progress(r.outlook(k, &tk.entry)); reason == nil {
				progress.Reset(g.ProgressEvery)
				continue
			}
		case <-timer.C:
			reason = ErrTimeout
		case <-ctx.Done():
			reason = context.Cause(ctx)
		}
		if r.leave(k, tk) {
			return none, reason
		}
		// Settled at the same moment: what was handed over counts.
		return tk.place, tk.err
	}
}

// join takes a place at once or enters the line; the ticket is nil unless the
// request has to wait.
func (r *Room[K, N, G]) join(k K, g *Guest[N]) (G, *ticket[N, G], error) {
	// Counted before the look for a place: who gives one back afterwards sees
	// that somebody waits, and who gave it back before was seen.
	r.total.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	var none G
	now := r.cfg.Now()
	q := r.queue(k, now)
	if r.closed == nil && q.line.len() == 0 {
		if place, ok := r.cfg.Take(k, g.Need, false); ok {
			r.total.Add(-1)
			q.line.charge(g.Tenant, g.Tokens, now)
			return place, nil, nil
		}
	}
	if err := r.admit(q, g); err != nil {
		r.total.Add(-1)
		return none, nil, err
	}
	tk := &ticket[N, G]{
		entry:   entry{tenant: g.Tenant, class: g.Class, tokens: g.Tokens, bytes: g.Bytes, since: now},
		need:    g.Need,
		choosy:  g.Choosy,
		settled: make(chan struct{}),
	}
	tk.owner = tk
	q.line.join(&tk.entry)
	r.hold(g.Tenant, 1, g.Bytes)
	if q.check == nil && r.cfg.CheckEvery > 0 {
		q.check = time.AfterFunc(r.cfg.CheckEvery, func() { r.recheck(k) })
	}
	return none, tk, nil
}

// leave removes a ticket that was not settled; false if it was.
func (r *Room[K, N, G]) leave(k K, tk *ticket[N, G]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk.done {
		return false
	}
	tk.done = true
	q := r.queues[k]
	q.line.leave(&tk.entry)
	r.gone(q, &tk.entry)
	return true
}

// maxAside bounds how many requests that no free place suits are stepped over
// at a time.
const maxAside = 64

// Wake hands free places to those who wait for k, whose turn it is first,
// until there is none left.
func (r *Room[K, N, G]) Wake(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[k]
	if q == nil || q.line.len() == 0 {
		return
	}
	now := r.cfg.Now()
	var aside []*entry
	for len(aside) < maxAside {
		e := q.line.next(now)
		if e == nil {
			break
		}
		tk := e.owner.(*ticket[N, G]) //nolint:forcetypeassert // the room alone fills its lines
		place, ok := r.cfg.Take(k, tk.need, true)
		if !ok && !tk.choosy {
			break
		}
		if !ok {
			q.line.leave(e)
			aside = append(aside, e)
			continue
		}
		q.line.serve(e, now)
		q.pace.letIn(now)
		r.settle(q, tk, place, nil)
	}
	for _, e := range aside {
		q.line.rejoin(e)
	}
}

// Fail ends the wait of everybody who waits for k.
func (r *Room[K, N, G]) Fail(k K, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil {
		r.failAll(q, err)
	}
}

// Close ends every wait with err; from now on nobody waits.
func (r *Room[K, N, G]) Close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = err
	for _, q := range r.queues {
		r.failAll(q, err)
	}
}

func (r *Room[K, N, G]) failAll(q *queue, err error) {
	var none G
	for q.line.len() > 0 {
		e := flowAt(q.line.turns.Front()).head()
		q.line.leave(e)
		r.settle(q, e.owner.(*ticket[N, G]), none, err) //nolint:forcetypeassert // see Wake
	}
}

// settle ends the wait of a ticket that was taken out of line.
func (r *Room[K, N, G]) settle(q *queue, tk *ticket[N, G], place G, err error) {
	tk.done, tk.place, tk.err = true, place, err
	close(tk.settled)
	r.gone(q, &tk.entry)
}

// gone gives back what a request held that is not in line any more.
func (r *Room[K, N, G]) gone(q *queue, e *entry) {
	r.total.Add(-1)
	r.hold(e.tenant, -1, -e.bytes)
	if q.line.len() == 0 {
		q.pace.idle()
		q.foretold = nil
		if q.check != nil {
			q.check.Stop()
			q.check = nil
		}
	}
}

// recheck is a lost notification's second chance.
func (r *Room[K, N, G]) recheck(k K) {
	if r.cfg.Check != nil {
		if err := r.cfg.Check(k); err != nil {
			r.Fail(k, err)
			return
		}
	}
	r.Wake(k)
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil && q.check != nil {
		q.check.Reset(r.cfg.CheckEvery)
	}
}

// Empty tells whether nobody waits for anything: one atomic read.
func (r *Room[K, N, G]) Empty() bool { return r.total.Load() == 0 }
