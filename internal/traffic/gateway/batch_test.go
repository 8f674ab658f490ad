package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// memorySink stores batches; fail decides about an attempt.
type memorySink struct {
	mu      sync.Mutex
	batches [][]traffic.Inference
	fail    func(ctx context.Context, attempt int) error
	tries   int
}

func (m *memorySink) store(ctx context.Context, batch []traffic.Inference) error {
	m.mu.Lock()
	m.tries++
	tries := m.tries
	m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(ctx, tries); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, append([]traffic.Inference(nil), batch...))
	return nil
}

func newRecorder(t *testing.T, sink *memorySink) *gateway.BatchRecorder {
	t.Helper()
	r, err := gateway.NewBatchRecorder(sink.store, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordsAreStoredInBatches(t *testing.T) {
	t.Parallel()
	sink := &memorySink{}
	r := newRecorder(t, sink)
	const n = 1000
	for i := range n {
		r.Record(traffic.Inference{RequestID: fmt.Sprint(i)})
	}
	if err := r.FlushAndClose(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := 0
	for _, batch := range sink.batches {
		if len(batch) == 0 || len(batch) > 200 {
			t.Errorf("a batch of %d", len(batch))
		}
		for _, i := range batch {
			if i.RequestID != fmt.Sprint(next) {
				t.Fatalf("record %s came as number %d", i.RequestID, next)
			}
			next++
		}
	}
	if next != n || r.Dropped() != 0 {
		t.Errorf("%d of %d stored, %d dropped", next, n, r.Dropped())
	}
	r.Record(traffic.Inference{})
	if r.Dropped() != 1 {
		t.Error("a record after the end was not counted as dropped")
	}
	if err := r.FlushAndClose(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSinkIsTriedAgain(t *testing.T) {
	t.Parallel()
	sink := &memorySink{fail: func(_ context.Context, attempt int) error {
		if attempt < 3 {
			return errors.New("database is locked")
		}
		return nil
	}}
	r := newRecorder(t, sink)
	r.Record(traffic.Inference{RequestID: "a"})
	if err := r.FlushAndClose(t.Context()); err != nil || len(sink.batches) != 1 || r.Dropped() != 0 {
		t.Errorf("%v, %d batches, %d dropped", err, len(sink.batches), r.Dropped())
	}
}

// Whoever reads what a model's calls left can wait for those that are over, and
// for no others.
func TestRecordsCanBeWaitedFor(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	sink := &memorySink{fail: func(context.Context, int) error { <-free; return nil }}
	r := newRecorder(t, sink)
	asked := time.Now()
	r.Record(traffic.Inference{RequestID: "1", Owner: "team-a", ReservationID: "m1", DoneAt: asked})
	r.Record(traffic.Inference{RequestID: "2", Owner: "team-a", ReservationID: "m2", DoneAt: asked.Add(time.Second)})
	r.Await(t.Context(), "team-b", "m1", asked)
	r.Await(t.Context(), "team-a", "m2", asked)
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r.Await(impatient, "team-a", "m1", asked); impatient.Err() == nil {
		t.Error("it did not wait for a record that is being stored")
	}
	close(free)
	r.Await(t.Context(), "team-a", "m1", asked)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if len(sink.batches) == 0 || sink.batches[0][0].RequestID != "1" {
		t.Errorf("stored are %v", sink.batches)
	}
}

func TestLostRecordsAreCounted(t *testing.T) {
	t.Parallel()
	away := &memorySink{fail: func(context.Context, int) error { return errors.New("away") }}
	r := newRecorder(t, away)
	r.Record(traffic.Inference{})
	if err := r.FlushAndClose(t.Context()); err != nil || r.Dropped() != 1 {
		t.Errorf("%v, %d dropped, want 1", err, r.Dropped())
	}

	// A sink that hangs: Record does not block, and the end is bounded.
	hangs := &memorySink{fail: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
	r = newRecorder(t, hangs)
	const n = 12_000
	for range n {
		r.Record(traffic.Inference{})
	}
	if r.Dropped() == 0 {
		t.Error("12 000 records fit into the queue")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.FlushAndClose(ctx); err == nil || r.Dropped() != n {
		t.Errorf("%v, %d dropped of %d", err, r.Dropped(), n)
	}
}

// TestAFloodLosesItsOwnRecords: one tenant makes more records than can be
// stored. Those of others are stored, and soon.
func TestAFloodLosesItsOwnRecords(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	sink := &memorySink{fail: func(context.Context, int) error { <-gate; return nil }}
	r := newRecorder(t, sink)
	const flood, calm = 20_000, 300
	for n := range flood {
		r.Record(traffic.Inference{RequestID: fmt.Sprint("f", n), Tenant: "team-f"})
		if n%(flood/calm) == 0 {
			r.Record(traffic.Inference{RequestID: fmt.Sprint("c", n), Tenant: fmt.Sprint("team-", n%3)})
			if _, found := r.Find(fmt.Sprint("c", n)); !found {
				t.Fatalf("record %d of another tenant was not taken", n)
			}
		}
	}
	close(gate)
	if err := r.FlushAndClose(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, others, lastOther, inOrder := 0, 0, 0, map[string]string{}
	for _, batch := range sink.batches {
		for _, i := range batch {
			stored++
			if i.Tenant != "team-f" {
				others, lastOther = others+1, stored
			}
			if before := inOrder[i.Tenant]; len(before) > len(i.RequestID) || len(before) == len(i.RequestID) && before > i.RequestID {
				t.Fatalf("%s of %s came before %s", before, i.Tenant, i.RequestID)
			}
			inOrder[i.Tenant] = i.RequestID
		}
	}
	if others < calm || stored+int(r.Dropped()) != flood+others {
		t.Errorf("%d records of others are stored, %d in all, %d were dropped", others, stored, r.Dropped())
	}
	if lastOther > 2000 {
		t.Errorf("the last record of another tenant came as number %d", lastOther)
	}
}
