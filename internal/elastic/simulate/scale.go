package simulate

import (
	"container/heap"
	"slices"
	"strconv"
	"time"

	"modeldock.io/internal/elastic"
)

// decide asks the engine, as a controller would.
func (r *run) decide() {
	var n int
	if r.policy.Plan != nil {
		n = r.policy.Plan(r.now, r.want)
	} else {
		d := elastic.Decide(r.spec(), r.signals(), r.history, elastic.Budget{}, moment(r.now))
		n, r.history = d.Replicas, d.Next
		if d.Replicas != d.From {
			r.out.Decisions = append(r.out.Decisions, d)
		}
	}
	if change := n - r.want; change != 0 {
		if change*r.change < 0 && r.now >= r.model.Warmup {
			r.turns = append(r.turns, r.now)
		}
		r.change = change
	}
	if n != r.want {
		r.hint()
	}
	r.scale(n)
	r.dispatch()
	r.note()
}

// spec is the policy, fitted to what a change of the count would take now.
func (r *run) spec() elastic.Spec {
	if r.policy.Asleep == 0 || r.policy.Fitted == nil {
		return r.policy.Spec
	}
	l := elastic.Ladder{Start: r.model.ColdStart, Wake: r.model.Wake, Asleep: r.sleeping, Places: r.policy.Asleep}
	for _, c := range r.replicas {
		if !c.ending && !c.woken && c.ready > r.now {
			l.Loading++
		}
	}
	return r.policy.Fitted(l)
}

// note adds what has changed to the timeline.
func (r *run) note() {
	p := Point{At: r.now, Replicas: r.want, Waiting: len(r.waiting), Running: r.running(), Held: len(r.replicas), Asleep: r.sleeping, ColdStarts: r.out.ColdStarts, Wakes: r.out.Wakes}
	for _, c := range r.replicas {
		if c.ready <= r.now && !c.ending {
			p.Ready++
		}
	}
	if n := len(r.out.Timeline); n > 0 {
		last := r.out.Timeline[n-1]
		if last.At = p.At; last == p {
			return
		}
	}
	r.out.Timeline = append(r.out.Timeline, p)
}

// moment is a time of the simulation's clock.
func moment(at time.Duration) time.Time { return time.Unix(0, 0).UTC().Add(time.Hour + at) }

// signals is what gateways and engines would report. The memory metric is
// what requests take above the idle baseline.
func (r *run) signals() elastic.Signals {
	in := elastic.Signals{Replicas: r.want, Waiting: len(r.waiting), InFlight: r.running(), Values: map[string]elastic.Reading{}}
	if r.last >= 0 {
		in.LastRequest = moment(r.last)
	}
	var ready []*replica
	for i, c := range r.replicas {
		state := elastic.PodPending
		switch {
		case c.ending:
			state = elastic.PodEnding
		case c.ready <= r.now:
			state = elastic.PodReady
			ready = append(ready, c)
			if in.ReadySince.IsZero() || moment(c.ready).Before(in.ReadySince) {
				in.ReadySince = moment(c.ready)
			}
		}
		in.Pods = append(in.Pods, elastic.Pod{Name: strconv.Itoa(i), State: state})
	}
	demand := float64(in.Waiting + in.InFlight)
	offered := min(demand, max(float64(in.InFlight), float64(r.recent())))
	in.Values[elastic.MetricDemand] = elastic.Reading{Total: &demand}
	in.Values[elastic.MetricOffered] = elastic.Reading{Total: &offered}
	queue, use := map[string]float64{}, map[string]float64{}
	for i, c := range r.replicas {
		if in.Pods[i].State == elastic.PodReady {
			queue[in.Pods[i].Name] = float64(in.Waiting) / float64(len(ready))
			if c.hear(r.policy.Signals, r.now); c.heard > 0 {
				use[in.Pods[i].Name] = 100 * float64(c.told) / float64(r.model.Concurrency)
			}
		}
	}
	waiting, running := float64(in.Waiting), float64(in.InFlight)
	in.Values[elastic.MetricQueue] = elastic.Reading{Replica: queue, Total: &waiting}
	in.Values[elastic.MetricRunning] = elastic.Reading{Total: &running}
	in.Values[elastic.MetricMemory] = elastic.Reading{Replica: use}
	in.Values[elastic.MetricKVCache] = elastic.Reading{Replica: use}
	return in
}

// recent counts the arrivals of the last mean service time.
func (r *run) recent() int {
	for len(r.arrivals) > 0 && r.arrivals[0] < r.now-r.service {
		r.arrivals = r.arrivals[1:]
	}
	return len(r.arrivals)
}

// scale wakes or starts replicas, or ends the least loaded, youngest first; they hold
// their cards until their last stream has ended, and for the time of a stop.
func (r *run) scale(n int) {
	for ; r.want < n; r.want++ {
		takes, counts, woken := r.model.ColdStart, &r.out.ColdStarts, r.sleeping > 0
		if woken {
			takes, counts = r.model.Wake, &r.out.Wakes
			r.sleeping--
		}
		c := &replica{born: r.now, ready: r.now + takes, woken: woken}
		r.replicas = append(r.replicas, c)
		if r.now >= r.model.Warmup {
			*counts++
		}
		heap.Push(&r.events, event{at: c.ready, kind: becameReady, replica: c})
	}
	for ; r.want > n; r.want-- {
		var victim *replica
		for _, c := range slices.Backward(r.replicas) {
			loading := victim != nil && c.ready > r.now && victim.ready <= r.now
			if !c.ending && (victim == nil || loading || c.running < victim.running) {
				victim = c
			}
		}
		victim.ending, victim.until = true, r.now+r.model.Stop
		if r.model.Stop > 0 {
			heap.Push(&r.events, event{at: victim.until, kind: stopped, replica: victim})
		}
	}
	r.reap()
}

// reap ends what is ending and idle, and pays for it. Those that have served
// stay loaded in host memory, as far as the policy says.
func (r *run) reap() {
	r.replicas = slices.DeleteFunc(r.replicas, func(c *replica) bool {
		over := c.ending && c.running == 0 && c.until <= r.now
		if over {
			r.pay(c)
			if c.ready <= r.now-r.model.Stop && r.sleeping < r.policy.Asleep {
				r.sleeping++
			}
			r.hint()
		}
		return over
	})
}

func (r *run) pay(c *replica) {
	held := r.now - max(c.born, r.model.Warmup)
	r.out.GPUHours += max(0, held).Hours() * float64(max(1, r.model.GPUs))
}
