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

// queuePage is how many rows of one tenant are read behind its head at once.
const queuePage = 32

// openWaiting yields the waiting requests of all tenants that have free slots
// in the published order. It merges the tenants' own queues and reads each
// only as far as the walk goes: a full tenant, or a long queue behind a head
// that is not reached, costs nothing.
type openWaiting struct {
	requests iter.Seq[budget.Request]
	err      error
}

// openQueue starts at the heads. Requests that need more than fits and came
// after old are passed over: see the query.
func openQueue(ctx context.Context, q queries, fits int64, old time.Time) (*openWaiting, error) {
	rows, err := q.OpenHeads(ctx, sqlitequery.OpenHeadsParams{Fits: fits, Old: micros(old)})
	if err != nil {
		return nil, fmt.Errorf("read the heads of the queue: %w", err)
	}
	heads := make(heads, 0, len(rows))
	for _, row := range rows {
		heads = append(heads, &head{rows: []budget.Request{request(sqlitequery.WholeQueueRow(row))}})
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
			after := sqlitequery.QueueAfterParams{Tenant: r.Tenant, Priority: int64(r.Priority), Seq: r.Seq, Fits: fits, Old: micros(old), MaxRows: queuePage}
			if w.err = h.advance(ctx, q, after); w.err != nil {
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
	last bool // nothing is behind rows
}

func (h *head) advance(ctx context.Context, q queries, after sqlitequery.QueueAfterParams) error {
	h.rows = h.rows[1:]
	if len(h.rows) > 0 || h.last {
		return nil
	}
	page, err := q.QueueAfter(ctx, after)
	if err != nil {
		return err
	}
	for _, row := range page {
		h.rows = append(h.rows, request(sqlitequery.WholeQueueRow(row)))
	}
	h.last = len(page) < queuePage
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
