package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// TestRecordIsStoredAtOnceAfterARest, and under load every 20 ms. The time is
// the bubble's.
func TestRecordIsStoredAtOnceAfterARest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{}
		r := newRecorder(t, sink)
		sizes := func() []int {
			synctest.Wait()
			sink.mu.Lock()
			defer sink.mu.Unlock()
			list := make([]int, 0, len(sink.batches))
			for _, b := range sink.batches {
				list = append(list, len(b))
			}
			return list
		}
		r.Record(traffic.Inference{RequestID: "a"})
		if got := sizes(); len(got) != 1 {
			t.Errorf("the first record is not stored at once: %v", got)
		}
		for range 3 {
			r.Record(traffic.Inference{RequestID: "b"})
		}
		time.Sleep(20 * time.Millisecond)
		if got := sizes(); len(got) != 2 || got[1] != 3 {
			t.Errorf("20 ms after, batches of %v, want 1 and 3", got)
		}
		time.Sleep(time.Hour)
		r.Record(traffic.Inference{RequestID: "c"})
		if got := sizes(); len(got) != 3 {
			t.Errorf("a record after an hour is not stored at once: %v", got)
		}
		for range 250 {
			r.Record(traffic.Inference{RequestID: "d"})
		}
		if got := sizes(); len(got) != 4 || got[3] != 200 {
			t.Errorf("a full batch waits: %v", got)
		}
		if err := r.FlushAndClose(t.Context()); err != nil || r.Dropped() != 0 {
			t.Errorf("%v, %d dropped", err, r.Dropped())
		}
		if got := sizes(); len(got) != 5 || got[4] != 50 {
			t.Errorf("the rest is missing: %v", got)
		}
	})
}

// TestFindAnswersWhatIsNotStoredYet: queued or being written, the latest
// record of an id counts.
func TestFindAnswersWhatIsNotStoredYet(t *testing.T) {
	t.Parallel()
	proceed, entered := make(chan struct{}), make(chan struct{}, 8)
	sink := &memorySink{fail: func(context.Context, int) error {
		entered <- struct{}{}
		<-proceed
		return nil
	}}
	r := newRecorder(t, sink)
	r.Record(traffic.Inference{RequestID: "a", Status: 1})
	<-entered // being written
	expect := func(id string, status int) {
		t.Helper()
		if got, ok := r.Find(id); ok != (status != 0) || got.Status != status {
			t.Errorf("%s: %+v, %t, want status %d", id, got, ok, status)
		}
	}
	expect("a", 1)
	expect("b", 0)
	r.Record(traffic.Inference{RequestID: "b", Status: 2})
	r.Record(traffic.Inference{RequestID: "a", Status: 3})
	r.Record(traffic.Inference{RequestID: "b", Status: 4})
	expect("a", 3)
	expect("b", 4)
	close(proceed)
	if err := r.FlushAndClose(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("a", 0)
	expect("b", 0)
}

// TestTimesOfAnAnswerAreInOrder, whatever its framing. The clock moves with
// every look at it.
func TestTimesOfAnAnswerAreInOrder(t *testing.T) {
	t.Parallel()
	whole := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
	}
	for name, engine := range map[string]http.HandlerFunc{
		"one burst":        events(roleEvent + chunkEvent("a") + stopEvent + doneEvent),
		"many writes":      events(roleEvent, chunkEvent("a"), chunkEvent("b"), stopEvent, doneEvent),
		"something after":  events(chunkEvent("a"), stopEvent, doneEvent, ": bye\n\n", ": bye\n\n"),
		"no DONE":          events(chunkEvent("a"), stopEvent),
		"cut":              events(chunkEvent("a"), chunkEvent("b")),
		"error inside":     events(chunkEvent("a"), `data: {"error":{"message":"boom"}}`+"\n\n"),
		"whole":            whole(wholeChat),
		"whole and long":   whole(`{"data":"` + strings.Repeat("x", 200_000) + `"}`),
		"usage after DONE": events(chunkEvent("a"), stopEvent, doneEvent, usageEvent),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			var looks atomic.Int64
			b := setup(t, func(c *gateway.Config) {
				c.Clock = func() time.Time { return start.Add(time.Duration(looks.Add(1)) * time.Microsecond) }
			})
			b.engine("team-a", "m1", "v1", engine)
			ask := helloStream
			if strings.HasPrefix(name, "whole") {
				ask = helloChat
			}
			id := b.chat(keyA, ask).header.Get("X-Request-Id")
			if name == "usage after DONE" {
				eventually(t, "the usage", func() bool { all := b.records.all(); return all[len(all)-1].PromptTokens == 7 })
			}
			r := b.record(id)
			if r.FirstContentAt.IsZero() || r.FirstContentAt.Before(r.FirstByteAt) || r.LastByteAt.Before(r.FirstContentAt) {
				t.Errorf("out of order: %+v", r)
			}
			if complete := r.Outcome == traffic.Completed; complete == r.DoneAt.IsZero() || complete && r.DoneAt.Before(r.LastByteAt) {
				t.Errorf("end out of order: %+v", r)
			}
			for _, r := range b.records.all() {
				if r.LastByteAt.Before(r.FirstContentAt) {
					t.Errorf("an earlier record is out of order: %+v", r)
				}
			}
		})
	}
}

// TestRecordDoesNotWaitForTheEngine: [DONE] was passed, the record is there
// even if the engine does not hang up.
func TestRecordDoesNotWaitForTheEngine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	complete := func() (n int) {
		for _, i := range b.records.all() {
			if i.Outcome == traffic.Completed && !i.DoneAt.IsZero() {
				n++
			}
		}
		return n
	}
	left := make(chan int, 1)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		events(chunkEvent("a"), stopEvent, doneEvent)(w, r)
		<-r.Context().Done()
		left <- complete()
	})
	b.chat(keyA, helloStream)
	if n := <-left; n != 1 {
		t.Errorf("%d complete records when the engine was left, want 1", n)
	}
	if n := complete(); n != 1 {
		t.Errorf("the end was recorded %d times", n)
	}
}
