package traffic_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

// TestLatencies: whatever was observed by whichever gateway, a quantile is the
// true one within the width of a bucket.
func TestLatencies(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var gateways [3]traffic.Latencies
	var all []time.Duration
	for range 5000 {
		d := time.Duration(random.ExpFloat64() * float64(300*time.Millisecond))
		gateways[random.IntN(3)].Observe(d)
		all = append(all, d)
	}
	together := gateways[0]
	together.Add(gateways[1])
	together.Add(gateways[2])
	slices.Sort(all)
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		got, want := together.Quantile(q), all[int(q*5000)-1]
		if got < want-time.Microsecond || got > max(want*6/5, time.Millisecond)+time.Microsecond {
			t.Errorf("quantile %g is %s, true is %s", q, got, want)
		}
	}
	var none traffic.Latencies
	none.Observe(time.Hour)
	none.Observe(-time.Second)
	if q := none.Quantile(0.5); q != time.Millisecond {
		t.Errorf("below all buckets: %s", q)
	}
	if (&traffic.Latencies{}).Quantile(0.99) != 0 {
		t.Error("no traffic is a value: zero")
	}
}

// TestLoadsAddUp: gateways count their own requests, and the engine's word
// counts once.
func TestLoadsAddUp(t *testing.T) {
	t.Parallel()
	three, half := 3.0, 0.5
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l := traffic.Load{Recent: new(2), OldestWait: time.Second, Waiting: 1, InFlight: 2, LastRequest: noon, Replicas: []traffic.ReplicaLoad{{UID: "a", InFlight: 2, Waiting: &three}}}
	l.Add(traffic.Load{Recent: new(3), OldestWait: time.Minute, Waiting: 4, InFlight: 5, LastRequest: noon.Add(time.Second), Replicas: []traffic.ReplicaLoad{
		{UID: "a", InFlight: 1, Waiting: &three, KVUsage: &half}, {UID: "b", InFlight: 4},
	}})
	if *l.Recent != 5 || l.OldestWait != time.Minute {
		t.Errorf("%d came of late, the oldest waits for %s", *l.Recent, l.OldestWait)
	}
	a, b := l.Replicas[0], l.Replicas[1]
	if l.Waiting != 5 || l.InFlight != 7 || !l.LastRequest.Equal(noon.Add(time.Second)) || len(l.Replicas) != 2 ||
		a.InFlight != 3 || *a.Waiting != 3 || *a.KVUsage != 0.5 || a.Running != nil || b.InFlight != 4 || b.Waiting != nil {
		t.Errorf("together: %+v, a %+v, b %+v", l, a, b)
	}
	if l.Add(traffic.Load{}); l.Recent != nil {
		t.Error("one gateway does not know, and the sum is told all the same")
	}
}
