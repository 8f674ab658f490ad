package sqlledger

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// So many rows of one tenant are read behind its head at once: few first, for
// most walks end soon, and then twice as many each time.
const firstPage, mostPage = 32, 512

// openWaiting yields the waiting requests of all tenants that have free slots
// in the published order. It merges the tenants' own queues and reads each
// only as far as the walk goes: a full tenant, or a long queue behind a head
// that is not reached, costs nothing.
type openWaiting struct {
	requests iter.Seq[budget.Request]
	err      error
}

// openQueue starts at the heads of queue's tenants; the walk is queue's.
// Requests that change nothing in it are left out, see Queue.Matters: the young
// ones are those that came after old.
func openQueue(ctx context.Context, q queries, queue *budget.Queue, old time.Time) (*openWaiting, error) {
	rows, err := q.OpenHeads(ctx, sqlitequery.OpenHeadsParams{Fits: queue.MostFree(), Old: micros(old)})
	if err != nil {
		return nil, fmt.Errorf("read the heads of the queue: %w", err)
	}
	heads := make(heads, 0, len(rows))
	for _, row := range rows {
		heads = append(heads, &head{rows: []budget.Request{request(sqlitequery.WholeQueueRow(row))}, page: firstPage})
	}
	heap.Init(&heads)
	w := &openWaiting{}
	w.requests = func(yield func(budget.Request) bool) {
		for len(heads) > 0 {
			h := heads[0]
			r := h.rows[0]
			if !yield(r) {
				return
			}
			young, most := queue.Matters(r.Tenant)
			if w.err = h.advance(ctx, q, r, young, most, micros(old)); w.err != nil {
				return
			}
			if len(h.rows) == 0 {
				heap.Pop(&heads)
			} else {
				heap.Fix(&heads, 0)
			}
		}
	}
	return w, nil
}

// head is one tenant's queue, read as far as rows go.
type head struct {
	rows []budget.Request
	page int64 // how many are read next
	last bool  // nothing is behind rows
}

// advance drops the first row, r. Those behind it matter if they need at most
// young, and at most most if they are old.
func (h *head) advance(ctx context.Context, q queries, r budget.Request, young, most, old int64) error {
	h.rows = h.rows[1:]
	if most == 0 {
		h.rows, h.last = nil, true
	}
	if len(h.rows) > 0 || h.last {
		return nil
	}
	same, err := q.QueueAfter(ctx, sqlitequery.QueueAfterParams{
		Tenant: r.Tenant, Priority: int64(r.Priority), Seq: r.Seq, Fits: young, Old: old, Most: most, MaxRows: h.page,
	})
	if err != nil {
		return err
	}
	for _, row := range same {
		h.rows = append(h.rows, request(sqlitequery.WholeQueueRow(row)))
	}
	if left := h.page - int64(len(same)); left > 0 {
		below, err := q.QueueBelow(ctx, sqlitequery.QueueBelowParams{
			Tenant: r.Tenant, Priority: int64(r.Priority), Fits: young, Old: old, Most: most, MaxRows: left,
		})
		if err != nil {
			return err
		}
		for _, row := range below {
			h.rows = append(h.rows, request(sqlitequery.WholeQueueRow(row)))
		}
	}
	h.last = int64(len(h.rows)) < h.page
	h.page = min(2*h.page, mostPage)
	return nil
}

// heads is a heap of the tenants' queues by their first row.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].rows[0].Before(h[j].rows[0]) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*head)) }
func (h *heads) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func request(row sqlitequery.WholeQueueRow) budget.Request {
	return budget.Request{
		Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Priority: int(row.Priority), Pool: row.Pool, Need: row.Need,
		CreatedAt: moment(row.CreatedAt), ExpiresAt: moment(row.ExpiresAt),
	}
}
