package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic"
)

// Sink stores a batch of records. It must be idempotent by request id, and the
// later record of an id replaces the earlier one.
type Sink func(ctx context.Context, batch []traffic.Inference) error

const (
	maxBatch     = 200
	maxLinger    = 100 * time.Millisecond
	queueLength  = 4096
	sinkAttempts = 3
	sinkTimeout  = 5 * time.Second
	sinkPause    = 100 * time.Millisecond // doubled after each attempt
)

// BatchRecorder is the traffic.Recorder of a gateway: records are queued
// without blocking and stored in batches by one goroutine. What the queue
// could not take and what the sink refused to the end is counted.
type BatchRecorder struct {
	sink    Sink
	log     *slog.Logger
	dropped atomic.Uint64

	mu     sync.RWMutex // guards closed against senders
	closed bool
	queue  chan traffic.Inference
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
		queue: make(chan traffic.Inference, queueLength),
		done:  make(chan struct{}),
	}
	if registerer != nil {
		drops := prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "modeldock_gateway_evidence_dropped_total",
			Help: "Inference records that were lost because the queue was full or the store failed.",
		}, func() float64 { return float64(b.dropped.Load()) })
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
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.closed {
		select {
		case b.queue <- i:
			return
		default:
		}
	}
	b.dropped.Add(1)
}

// Dropped is how many records were lost so far.
func (b *BatchRecorder) Dropped() uint64 { return b.dropped.Load() }

// FlushAndClose stores what is queued and ends the recorder. When ctx ends
// first, the rest is given up and counted as dropped.
func (b *BatchRecorder) FlushAndClose(ctx context.Context) error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.queue)
	}
	b.mu.Unlock()
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
	batch := make([]traffic.Inference, 0, maxBatch)
	for first := range b.queue {
		batch = b.collect(append(batch[:0], first))
		b.store(batch)
	}
}

// collect fills the batch until it is full or its first record has waited
// long enough.
func (b *BatchRecorder) collect(batch []traffic.Inference) []traffic.Inference {
	linger := time.NewTimer(maxLinger)
	defer linger.Stop()
	for len(batch) < maxBatch {
		select {
		case next, open := <-b.queue:
			if !open {
				return batch
			}
			batch = append(batch, next)
		case <-linger.C:
			return batch
		}
	}
	return batch
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
