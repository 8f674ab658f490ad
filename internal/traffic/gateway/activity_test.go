package gateway_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
)

func (b *bench) load(name string) traffic.Load {
	all := b.gateway.Loads()
	i := slices.IndexFunc(all, func(l traffic.Load) bool { return l.Model == name })
	if i < 0 {
		b.t.Fatalf("no load of %s among %+v", name, all)
	}
	return all[i]
}

// TestLoads: who decides the number of replicas hears of every version, of
// those that nobody calls too, and of engines only what they said.
func TestLoads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if idle := b.load("m2"); idle.InFlight+idle.Waiting != 0 || !idle.LastRequest.IsZero() || idle.RequestID == "" || len(idle.Replicas) != 0 || idle.Recent == nil || *idle.Recent != 0 {
		t.Errorf("nobody ever called it: %+v", idle)
	}
	before := time.Now()
	waiting := b.later(keyA, helloChat)
	eventually(t, "the call to wait", func() bool { return b.load("m1").Waiting == 1 })
	if l := b.load("m1"); l.LastRequest.Before(before) || l.Recent != nil || l.OldestWait <= 0 {
		t.Errorf("a waiting call is no request, or it is known how long one takes: %+v", l)
	}
	release := make(chan struct{})
	e := b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		<-release
		events(chunkEvent("a"), doneEvent)(w, r)
	})
	eventually(t, "the call to run", func() bool { return b.load("m1").InFlight == 1 })
	b.table.Report(e.UID, route.Signal{At: time.Now(), Period: time.Minute, Waiting: route.Known(3)})
	l := b.load("m1")
	if len(l.Replicas) != 1 || l.Replicas[0].InFlight != 1 || l.Replicas[0].Waiting == nil || *l.Replicas[0].Waiting != 3 || l.Replicas[0].KVUsage != nil {
		t.Errorf("of its replica: %+v", l.Replicas)
	}
	began := time.Now()
	close(release)
	<-waiting
	eventually(t, "its end to count", func() bool { return !b.load("m1").LastRequest.Before(began) && b.load("m1").InFlight == 0 })
	if p := b.chat(keyA, helloStream); p.status != 200 {
		t.Fatalf("status %d", p.status)
	}
	l = b.load("m1")
	if l.Recent == nil || *l.Recent < 1 || *l.Recent > 2 || l.OldestWait != 0 {
		t.Errorf("of late came %v, the oldest waits for %s", l.Recent, l.OldestWait)
	}
	if p99 := l.FirstChunk.Quantile(0.99); p99 <= 0 {
		t.Errorf("the first chunk took %s", p99)
	}
}

// TestWakeIsAskedForOnce: a thousand callers of a model without a replica are
// one wake, which comes with the first of them and not by polling.
func TestWakeIsAskedForOnce(t *testing.T) {
	t.Parallel()
	wakes := make(chan traffic.Wake, 1000)
	b := setup(t, func(c *gateway.Config) { c.Wake = func(w traffic.Wake) { wakes <- w } })
	var answers []<-chan result
	for range 50 {
		answers = append(answers, b.later(keyA, helloStream))
	}
	if w := <-wakes; w.Owner != "team-a" || w.Model != "m1" || w.Version != "v1" || w.RequestID == "" || w.Since.IsZero() {
		t.Errorf("the wake: %+v", w)
	}
	eventually(t, "all to wait", func() bool { return b.waiting("m1") == 50 })
	e := b.engine("team-a", "m1", "v1", events(chunkEvent("a"), doneEvent))
	for _, a := range answers {
		if got := <-a; got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if n := len(wakes); n != 0 {
		t.Errorf("%d wakes more", n)
	}
	b.table.Remove(e.UID) // asleep again
	again := b.later(keyA, helloStream)
	<-wakes
	b.table.Upsert(e)
	<-again
}
