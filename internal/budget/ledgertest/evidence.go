package ledgertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/traffic"
)

func runEvidence(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle, evidence.Store){
		"records come back whole and once":       records,
		"first and latest chunk in any order":    keepsChunks,
		"pruning by age and count leaves chunks": prunes,
		"pruning takes of who has the most":      prunesTheMost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 10)
			store, ok := b.Ledger.(evidence.Store)
			if !ok {
				t.Fatalf("%T keeps no evidence", b.Ledger)
			}
			run(b, store)
		})
	}
}

// inference is a completed answer that was received at second n.
func inference(b *bundle, id string, n int) traffic.Inference {
	at := b.clock.Now().Add(time.Duration(n) * time.Second)
	return traffic.Inference{
		RequestID: id, ClientRequestID: "theirs", Tenant: "team-b", KeyID: "k1", Owner: "team-a", Model: "tiny", Version: "v1",
		ReservationID: "demo", EndpointUID: "e1", ObjectUID: "o1", Path: "/v1/chat/completions", Stream: true, Status: 200,
		Outcome: traffic.Completed, ReceivedAt: at, QueuedFor: 3 * time.Millisecond, SentAt: at.Add(4 * time.Millisecond),
		FirstByteAt: at.Add(5 * time.Millisecond), FirstContentAt: at.Add(6 * time.Millisecond),
		LastByteAt: at.Add(7 * time.Millisecond), DoneAt: at.Add(8 * time.Millisecond), PromptTokens: 11, CompletionTokens: 7,
	}
}

var demo = budget.Ref{Tenant: "team-a", ID: "demo"}

func records(b *bundle, store evidence.Store) {
	one, two := inference(b, "i1", 1), inference(b, "i2", 2)
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{one, two}))
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{one}))
	b.ok(store.PutInferences(b.ctx, nil))
	got, err := store.Inference(b.ctx, "i1")
	b.ok(err)
	equal(b, "record", got, one)
	earlier := one // an older report of the same request changes nothing
	earlier.LastByteAt, earlier.DoneAt, earlier.Outcome = time.Time{}, time.Time{}, traffic.UpstreamCut
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{earlier}))
	got, err = store.Inference(b.ctx, "i1")
	b.ok(err)
	equal(b, "record", got, one)
	_, err = store.Inference(b.ctx, "unknown")
	b.is(err, budget.ErrNotFound)
	list, err := store.Inferences(b.ctx, demo, 0)
	b.ok(err)
	equal(b, "records", len(list), 2)
	equal(b, "newest", list[0].RequestID, "i2")
	list, err = store.Inferences(b.ctx, demo, 1)
	b.ok(err)
	equal(b, "limited", len(list), 1)
	list, err = store.Inferences(b.ctx, budget.Ref{Tenant: "team-b", ID: "demo"}, 0)
	b.ok(err)
	equal(b, "records of another owner", len(list), 0)
}

func keepsChunks(b *bundle, store evidence.Store) {
	first, latest, err := store.Chunks(b.ctx, demo)
	b.ok(err)
	if first != nil || latest != nil {
		b.Fatal("chunks out of nothing")
	}
	silent := inference(b, "i0", 0)
	silent.FirstContentAt, silent.DoneAt, silent.Outcome = time.Time{}, time.Time{}, traffic.UpstreamCut
	running := inference(b, "i9", 9)
	running.DoneAt = time.Time{}
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{inference(b, "i5", 5), silent, running, inference(b, "i2", 2), inference(b, "i7", 7)}))
	check := func(done bool) {
		b.Helper()
		first, latest, err := store.Chunks(b.ctx, demo)
		b.ok(err)
		if first == nil || latest == nil {
			b.Fatal("no chunks were kept")
		}
		want := inference(b, "i2", 2)
		equal(b, "first", *first, traffic.Chunk{InferenceID: "i2", EndpointUID: "e1", Tenant: "team-b",
			SentAt: want.SentAt, FirstByteAt: want.FirstByteAt, At: want.FirstContentAt, DoneAt: want.DoneAt})
		equal(b, "latest", latest.InferenceID, "i9")
		equal(b, "latest done", !latest.DoneAt.IsZero(), done)
	}
	check(false)
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{inference(b, "i9", 9)}))
	check(true)
	b.ok(store.PutInferences(b.ctx, []traffic.Inference{running}))
	check(true)
}

// prunesTheMost: where there are too many records, who has the most loses the
// oldest, and nobody else any.
func prunesTheMost(b *bundle, store evidence.Store) {
	var batch []traffic.Inference
	for i, tenant := range []string{"team-c", "team-b", "team-b", "team-b", "team-a", "team-b", "team-b", "team-a", "team-b"} {
		record := inference(b, fmt.Sprint("i", i), i)
		record.Tenant = tenant
		batch = append(batch, record)
	}
	b.ok(store.PutInferences(b.ctx, batch))
	for _, c := range []struct {
		most int64
		want string
	}{{9, "i8 i7 i6 i5 i4 i3 i2 i1 i0"}, {6, "i8 i7 i6 i5 i4 i0"}, {3, "i8 i7 i0"}} {
		b.ok(store.Prune(b.ctx, 0, c.most))
		list, err := store.Inferences(b.ctx, demo, 0)
		b.ok(err)
		var left []string
		for _, i := range list {
			left = append(left, i.RequestID)
		}
		equal(b, fmt.Sprint("records of ", c.most), strings.Join(left, " "), c.want)
	}
}

func prunes(b *bundle, store evidence.Store) {
	var batch []traffic.Inference
	for i := range 10 {
		batch = append(batch, inference(b, fmt.Sprint("i", i), i))
	}
	b.ok(store.PutInferences(b.ctx, batch))
	count := func(want int) {
		b.Helper()
		list, err := store.Inferences(b.ctx, demo, 0)
		b.ok(err)
		equal(b, "records", len(list), want)
		if want > 0 {
			equal(b, "newest", list[0].RequestID, "i9")
		}
	}
	b.ok(store.Prune(b.ctx, 0, 0))
	count(10)
	b.ok(store.Prune(b.ctx, time.Hour, 6))
	count(6)
	b.clock.Advance(time.Hour + 7*time.Second)
	b.ok(store.Prune(b.ctx, time.Hour, 100))
	count(3)
	first, latest, err := store.Chunks(b.ctx, demo)
	b.ok(err)
	equal(b, "first", first.InferenceID, "i0")
	equal(b, "latest", latest.InferenceID, "i9")
}
