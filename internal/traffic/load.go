package traffic

import (
	"math"
	"time"
)

// Load is what one gateway, or several together, know of how much one version
// of a model has to do.
type Load struct {
	Owner     string
	Model     string
	Version   string
	RequestID string
	Waiting   int // in the gateways' own queues
	InFlight  int // on replicas, those that drain included
	// LastRequest is when a request last came or ended; zero: none since the
	// gateway started.
	LastRequest time.Time `json:",omitzero"`
	FirstChunk  Latencies // of the last one or two minutes
	// Recent are the requests that came within the last mean service time: as
	// many would be running if none had to wait (Little's law). Nil: how long
	// one takes is not known.
	Recent *int `json:",omitempty"`
	// OldestWait is how long the longest waiting one has waited.
	OldestWait time.Duration `json:",omitempty"`
	Replicas   []ReplicaLoad
}

// ReplicaLoad is the same of one replica. What its engine does not tell is nil.
type ReplicaLoad struct {
	UID      string
	InFlight int
	Waiting  *float64 `json:",omitempty"` // in the engine's own queue
	Running  *float64 `json:",omitempty"`
	KVUsage  *float64 `json:",omitempty"` // 1 is full
	Memory   *float64 `json:",omitempty"` // share of its cards' memory in use
}

// Add puts what another gateway knows of the same version beside it. Gateways
// count their own requests; the engine tells all of them the same.
func (l *Load) Add(other Load) {
	l.Waiting += other.Waiting
	l.InFlight += other.InFlight
	if other.LastRequest.After(l.LastRequest) {
		l.LastRequest = other.LastRequest
	}
	l.FirstChunk.Add(other.FirstChunk)
	l.OldestWait = max(l.OldestWait, other.OldestWait)
	if l.Recent == nil || other.Recent == nil {
		l.Recent = nil
	} else {
		l.Recent = new(*l.Recent + *other.Recent)
	}
	for _, r := range other.Replicas {
		l.addReplica(r)
	}
}

func (l *Load) addReplica(r ReplicaLoad) {
	for i := range l.Replicas {
		have := &l.Replicas[i]
		if have.UID != r.UID {
			continue
		}
		have.InFlight += r.InFlight
		for _, f := range []struct{ have, more **float64 }{
			{&have.Waiting, &r.Waiting}, {&have.Running, &r.Running}, {&have.KVUsage, &r.KVUsage}, {&have.Memory, &r.Memory},
		} {
			if *f.have == nil {
				*f.have = *f.more
			}
		}
		return
	}
	l.Replicas = append(l.Replicas, r)
}

// Latencies is a histogram of durations that gateways add up: bucket i ends at
// a millisecond times 1.2ⁱ, so that a quantile is right within a fifth.
type Latencies [latencyBuckets]uint32

const (
	latencyBuckets = 72 // up to some seven minutes
	latencyGrowth  = 1.2
)

// Observe counts one duration.
func (l *Latencies) Observe(d time.Duration) {
	i := 0
	if ms := float64(d) / float64(time.Millisecond); ms > 1 {
		i = min(int(math.Ceil(math.Log(ms)/math.Log(latencyGrowth))), latencyBuckets-1)
	}
	l[i]++
}

// Add counts what another one has.
func (l *Latencies) Add(other Latencies) {
	for i, n := range other {
		l[i] += n
	}
}

// Quantile is the upper bound of the bucket in which the q-th part ends; zero
// if nothing was observed.
func (l *Latencies) Quantile(q float64) time.Duration {
	var all uint64
	for _, n := range l {
		all += uint64(n)
	}
	if all == 0 {
		return 0
	}
	rank, sum := uint64(math.Ceil(q*float64(all))), uint64(0)
	for i, n := range l {
		if sum += uint64(n); sum >= rank {
			return time.Duration(math.Pow(latencyGrowth, float64(i)) * float64(time.Millisecond))
		}
	}
	return 0
}
