package scaler

import (
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/traffic"
)

// signals joins what gateways, engines and the target say of one model. What
// nobody said is absent, which is not zero; no traffic is zero.
func (m *model) signals(v view, r budget.Reservation, st delivery.Status, load traffic.Load, heard bool) elastic.Signals {
	in := elastic.Signals{
		Replicas: min(st.Asked, r.Funded), Blind: !heard || len(v.loads.Unheard) > 0,
		Waiting: load.Waiting, InFlight: load.InFlight, LastRequest: load.LastRequest,
		Values: map[string]elastic.Reading{},
	}
	in.Pods, in.ReadySince = pods(st)
	m.measure(st)
	if heard {
		in.Values[elastic.MetricDemand] = total(float64(load.Waiting + load.InFlight))
		if n, known := m.offered(load); known {
			in.Values[elastic.MetricOffered] = total(n)
		}
		in.Values[elastic.MetricRunning] = total(float64(load.InFlight))
		in.Values[elastic.MetricQueue] = total(float64(load.Waiting) + engineQueue(load))
		in.Values[elastic.MetricLatency] = total(float64(load.FirstChunk.Quantile(0.99)) / float64(time.Millisecond))
	}
	cache, memory := map[string]float64{}, map[string]float64{}
	for _, l := range load.Replicas {
		if l.KVUsage != nil {
			cache[l.UID] = 100 * *l.KVUsage
		}
		if share, known := memoryShare(l, v.cards); known {
			memory[l.UID] = m.aboveIdle(l.UID, share)
		}
	}
	in.Values[elastic.MetricKVCache] = elastic.Reading{Replica: cache}
	in.Values[elastic.MetricMemory] = elastic.Reading{Replica: memory}
	m.forget(in.Pods)
	return in
}

// measure learns how long a replica takes to start, and how long to be woken.
// The quickest counts: one that did not answer for a while seems to have
// started late.
func (m *model) measure(st delivery.Status) {
	m.ladder.Asleep, m.ladder.Loading = st.Sleeping(), 0
	var start, wake time.Duration
	for _, r := range st.Replicas {
		if loads(r) {
			m.ladder.Loading++
		}
		began, quickest := r.PlacedAt, &start
		switch {
		case !r.WokenAt.IsZero():
			began, quickest = r.WokenAt, &wake
		case !r.CreatedAt.IsZero():
			began = r.CreatedAt // with the wait for a node
		}
		if took := r.ReadyAt.Sub(began); r.Phase == delivery.PhaseReady && !began.IsZero() && took > 0 && (*quickest == 0 || took < *quickest) {
			*quickest = took
		}
	}
	if start > 0 {
		m.ladder.Start = start
	}
	if wake > 0 {
		m.ladder.Wake = wake
	}
}

// loads reports a start that has cost something and goes as it should. One that
// waits for a card may be given up at any time.
func loads(r delivery.Replica) bool {
	return r.WokenAt.IsZero() && (r.Phase == delivery.PhaseStarting || r.Phase == delivery.PhaseLoading)
}

// backlogGrace is how much longer than twice a start a request may wait before
// the whole backlog counts.
const backlogGrace = 5 * time.Second

// offered is the load without the backlog that piles up while replicas start,
// which is gone soon after. A backlog that stays longer than that is work for
// more replicas: it counts in full, as demand does.
func (m *model) offered(l traffic.Load) (float64, bool) {
	if l.Recent == nil || l.OldestWait > 2*m.ladder.Next()+backlogGrace {
		return 0, false
	}
	return float64(min(l.Waiting+l.InFlight, max(l.InFlight, *l.Recent))), true
}

// pods are the replicas as HPA sees Pods.
func pods(st delivery.Status) (list []elastic.Pod, readySince time.Time) {
	for _, r := range st.Replicas {
		state := elastic.PodPending
		switch r.Phase {
		case delivery.PhaseAsleep:
			continue // nobody counts on it
		case delivery.PhaseReady:
			state = elastic.PodReady
			if readySince.IsZero() || r.ReadyAt.Before(readySince) {
				readySince = r.ReadyAt
			}
		case delivery.PhaseTerminating:
			state = elastic.PodEnding
		case delivery.PhasePending, delivery.PhaseStarting, delivery.PhaseLoading, delivery.PhaseBackoff:
		}
		list = append(list, elastic.Pod{Name: r.UID, State: state})
	}
	return list, readySince
}

// engineQueue sums what engines say of their own queues. Those who say
// nothing are counted by the gateways' requests in flight alone.
func engineQueue(l traffic.Load) (n float64) {
	for _, r := range l.Replicas {
		if r.Waiting != nil {
			n += *r.Waiting
		}
	}
	return n
}

// memoryShare is the part of its card's memory that is in use: by the engine's
// own word, or as measured where the replica has the card to itself.
func memoryShare(l traffic.ReplicaLoad, cards []Card) (float64, bool) {
	if l.Memory != nil {
		return *l.Memory, true
	}
	for _, c := range cards {
		if c.MeasuredMiB > 0 && c.TotalMiB > 0 && len(c.Holders) == 1 && c.Holders[0].Replica == l.UID {
			return float64(c.MeasuredMiB) / float64(c.TotalMiB), true
		}
	}
	return 0, false
}

// aboveIdle is a replica's use of memory beyond the least that was seen of it.
func (m *model) aboveIdle(uid string, share float64) float64 {
	least, known := m.idle[uid]
	if !known || share < least {
		least = share
		m.idle[uid] = share
	}
	return elastic.MemoryAboveIdle(share, least, 1)
}

func (m *model) forget(pods []elastic.Pod) {
	there := make(map[string]bool, len(pods))
	for _, p := range pods {
		there[p.Name] = true
	}
	for uid := range m.idle {
		if !there[uid] {
			delete(m.idle, uid)
		}
	}
}

func total(v float64) elastic.Reading { return elastic.Reading{Total: &v} }
