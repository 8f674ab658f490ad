package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic"
)

// Sink stores a batch of records. It must be idempotent by request id, and the
// later record of an id replaces the earlier one.
type Sink func(ctx context.Context, batch []traffic.Inference) error

const (
	maxBatch = 200
	// batchPause is the time between two batches under load. A record that
	// comes after a rest is stored at once: whoever got an answer may ask for
	// its trace right away.
	batchPause   = 20 * time.Millisecond
	queueLength  = 4096
	sinkAttempts = 3
	sinkTimeout  = 5 * time.Second
	sinkPause    = 100 * time.Millisecond // doubled after each attempt
)

// BatchRecorder is the traffic.Recorder of a gateway: records are queued
// without blocking and stored in batches by one goroutine, by turns of their
// tenants. What the queue could not take and what the sink refused to the end is counted.
type BatchRecorder struct {
	sink    Sink
	log     *slog.Logger
	dropped atomic.Uint64

	queue  recordQueue
	wake   chan struct{} // holds one token when the queue deserves a look
	done   chan struct{}
	ctx    context.Context //nolint:containedctx // the life of the goroutine, ended by FlushAndClose
	cancel context.CancelFunc
}

// NewBatchRecorder starts a recorder. registerer takes its metric and may be
// nil. End it with FlushAndClose.
func NewBatchRecorder(sink Sink, log *slog.Logger, registerer prometheus.Registerer) (*BatchRecorder, error) {
	if log == nil {
		log = slog.Default()
	}
	b := &BatchRecorder{
		sink: sink, log: log,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	if registerer != nil {
		drops := prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "modeldock_gateway_evidence_dropped_total",
			Help: "Inference records that were lost because the queue was full or the store failed.",
		}, func() float64 { return float64(b.Dropped()) })
		if err := registerer.Register(drops); err != nil {
			return nil, fmt.Errorf("register the recorder's metrics: %w", err)
		}
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	go b.run()
	return b, nil
}

// Record implements traffic.Recorder.
func (b *BatchRecorder) Record(i traffic.Inference) {
	switch b.queue.push(i) {
	case 0:
		b.dropped.Add(1)
	case 1, maxBatch:
		b.ring()
	}
}

// ring makes the goroutine look at the queue.
func (b *BatchRecorder) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Find returns the latest record of a request while it is queued or being
// stored. What it does not find is in the store, was lost, or was never made:
// ask it before the store, not after.
func (b *BatchRecorder) Find(requestID string) (traffic.Inference, bool) {
	return b.queue.find(requestID)
}

// Await returns when the records of calls of one model that were over by then
// are in the store, or were lost, or when ctx ends.
func (b *BatchRecorder) Await(ctx context.Context, owner, reservation string, by time.Time) {
	const look = 5 * time.Millisecond
	for b.queue.has(func(i traffic.Inference) bool {
		return i.Owner == owner && i.ReservationID == reservation && !i.DoneAt.After(by)
	}) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
}

// Dropped is how many records were lost so far.
func (b *BatchRecorder) Dropped() uint64 { return b.dropped.Load() + b.queue.lost() }

// FlushAndClose stores what is queued and ends the recorder. When ctx ends
// first, the rest is given up and counted as dropped.
func (b *BatchRecorder) FlushAndClose(ctx context.Context) error {
	b.queue.close()
	b.ring()
	defer b.cancel()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		b.cancel()
		<-b.done
		return fmt.Errorf("flush evidence records, %d dropped so far: %w", b.Dropped(), context.Cause(ctx))
	}
}

func (b *BatchRecorder) run() {
	defer close(b.done)
	rested := time.NewTimer(0)
	defer rested.Stop()
	for {
		length, closed := b.queue.state()
		switch {
		case length == 0 && closed:
			return
		case length == 0:
			<-b.wake
			continue
		case length < maxBatch && !closed:
			select {
			case <-rested.C:
			case <-b.wake:
				continue
			}
		}
		b.store(b.queue.take(maxBatch))
		b.queue.stored()
		rested.Reset(batchPause)
	}
}

// store tries a few times: a store that is busy for a moment must not cost
// evidence, one that is away must not stop the queue for good.
func (b *BatchRecorder) store(batch []traffic.Inference) {
	var err error
	pause := sinkPause
	for attempt := range sinkAttempts {
		if attempt > 0 && !b.sleep(pause) {
			break
		}
		pause *= 2
		ctx, cancel := context.WithTimeout(b.ctx, sinkTimeout)
		err = b.sink(ctx, batch)
		cancel()
		if err == nil {
			return
		}
	}
	b.dropped.Add(uint64(len(batch)))
	b.log.Error("evidence records lost", "records", len(batch), "error", err)
}

func (b *BatchRecorder) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}
