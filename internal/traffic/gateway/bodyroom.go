package gateway

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic"
)

// DefaultBodyMemory is how much of requests' bodies is in memory at once.
const DefaultBodyMemory = 256 << 20

// bodyRoom is the memory for the bodies of requests, from before they are read
// until nobody needs them any more. Limits are counted by what a body says, so
// that this bound is the one that comes before.
type bodyRoom struct {
	most    int64
	held    atomic.Int64
	tenants sync.Map // by name: *atomic.Int64, what it holds
}

// of is a tenant's count. Only who has a key makes one.
func (r *bodyRoom) of(tenant string) *atomic.Int64 {
	if own, ok := r.tenants.Load(tenant); ok {
		return own.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored
	}
	own, _ := r.tenants.LoadOrStore(tenant, new(atomic.Int64))
	return own.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored
}

// take reserves n bytes. No tenant gets more than it leaves free, so that one
// alone has half of the room, and there is always some for one more.
// (A. K. Choudhury, E. L. Hahne, Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches, 1998, with a factor of one.)
func (r *bodyRoom) take(own *atomic.Int64, n int64) error {
	mine, all := own.Add(n), r.held.Add(n)
	if mine <= r.most-all {
		return nil
	}
	r.give(own, n)
	return r.full(n, mine-n, all-n)
}

func (r *bodyRoom) give(own *atomic.Int64, n int64) {
	own.Add(-n)
	r.held.Add(-n)
}

// full says whose fault it is: a quarter of the room is everybody's right.
func (r *bodyRoom) full(n, mine, all int64) error {
	f := &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "body_memory_full", outcome: traffic.RejectedFull,
		retryAfter: 2 * time.Second, dropped: droppedFull,
		message: fmt.Sprintf("the gateway holds %s of request bodies, of %s that it may, and this one needs %s more; try again in 2 s",
			mebibytes(all), mebibytes(r.most), mebibytes(n)),
	}
	if mine+n > r.most/4 {
		f.status, f.kind = http.StatusTooManyRequests, typeRateLimit
		f.message = fmt.Sprintf("your tenant's requests hold %s of the %s for request bodies, and this one needs %s more, "+
			"but no tenant gets more than what it leaves free; wait for some to end, or send smaller ones", mebibytes(mine), mebibytes(r.most), mebibytes(n))
	}
	return f
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Pace is how slowly a request's body may come: what Rate brings within Grace,
// or the rest, has to be there within one and a half times that. What came
// faster before is no credit for a pause.
type Pace struct {
	Grace time.Duration // default 10 s
	Rate  int64         // bytes per second; default 16 KiB
}

// pacer holds one body's arrival to its pace by the connection's deadline,
// which costs no timer of its own.
type pacer struct {
	Pace
	control *http.ResponseController
	begun   time.Time
	next    int64
}

// begin gives the first bytes their time. Deadlines are the system's, and so
// is their clock.
func (p *pacer) begin() {
	p.begun = time.Now()
	p.move(p.begun, 0)
}

// came moves the deadline on where enough was read.
func (p *pacer) came(read int64) {
	if read >= p.next {
		p.move(time.Now(), read)
	}
}

func (p *pacer) move(now time.Time, read int64) {
	p.next = read + int64(p.Grace.Seconds()*float64(p.Rate))
	_ = p.control.SetReadDeadline(now.Add(p.Grace + p.Grace/2)) // what has no deadline is no connection
}

// over lets the connection rest: its next words are another request's.
func (p *pacer) over() { _ = p.control.SetReadDeadline(time.Time{}) }

func (p *pacer) tooSlow(read int64) error {
	return &failure{
		status: http.StatusRequestTimeout, kind: typeRequest, code: "body_too_slow", outcome: traffic.RejectedLimit,
		message: fmt.Sprintf("the request body came too slowly: %d bytes in %s, and then less than %d bytes per second; send it anew, without pauses",
			read, time.Since(p.begun).Round(time.Second), p.Rate),
	}
}
