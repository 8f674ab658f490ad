package simulate

import (
	"slices"
	"time"

	"modeldock.io/internal/elastic"
)

// Clairvoyant is a policy that knows the trace: a bound of what knowledge of
// the future is worth. price is what it gives, in seconds of one replica, to
// have one request in time. Replicas are stacked as levels, and each level is
// planned by itself, optimally: hold over a gap, or end and start again, or
// leave the requests late. That requests may wait a little is not used, so a
// slightly better plan may exist.
func Clairvoyant(trace []Request, m Model, price time.Duration) Policy {
	var counts []int // levels held in each second
	for _, needs := range levels(trace, m) {
		for _, span := range plan(needs, m.ColdStart, price) {
			from, to := int(span.at/time.Second)-1, int(span.until/time.Second)+1
			for len(counts) <= to {
				counts = append(counts, 0)
			}
			for s := max(0, from); s <= to; s++ {
				counts[s]++
			}
		}
	}
	held := func(at time.Duration) int {
		if s := int(at / time.Second); s < len(counts) {
			return counts[s]
		}
		return 0
	}
	end := trace[len(trace)-1].At
	return Policy{
		Name: "clairvoyant", Period: time.Second, Spec: elastic.Spec{Max: len(trace)},
		Plan: func(at time.Duration, replicas int) int {
			n := max(held(at), held(at+m.ColdStart))
			for ahead := at; ahead < at+m.ColdStart && n < replicas; ahead += time.Second {
				n = max(n, min(replicas, held(ahead)))
			}
			if at+2*time.Second > end {
				n = max(n, 1) // whoever was left waiting is served in the end
			}
			return n
		},
	}
}

// need is one request on its level, or a time that a level is held for.
type need struct{ at, until time.Duration }

// levels puts each request on the level that has room when nobody waits.
func levels(trace []Request, m Model) [][]need {
	var all [][]need
	var running []time.Duration // ends
	for _, q := range trace {
		running = slices.DeleteFunc(running, func(end time.Duration) bool { return end <= q.At })
		level := len(running) / m.Concurrency
		for len(all) <= level {
			all = append(all, nil)
		}
		n := need{q.At, q.At + m.first(q) + time.Duration(q.Answer)*m.PerToken}
		running, all[level] = append(running, n.until), append(all[level], n)
	}
	return all
}

// plan chooses which needs a level serves, by dynamic programming over "the
// level is up after need i" and "it is down", and joins what it is held for.
func plan(needs []need, start, price time.Duration) []need {
	const held, again, fresh = 1, 2, 3 // how a level came to be up; 0: it is down
	type step struct{ up, down byte }  // down: 1 if it was up before
	steps := make([]step, len(needs))
	var up, down time.Duration = 1 << 60, 0
	for i, n := range needs {
		tail, gap := time.Duration(0), time.Duration(1<<60)
		if i > 0 {
			gap, tail = n.at-needs[i-1].at, needs[i-1].until-needs[i-1].at
		}
		best, how := up+gap, byte(held)
		if up+tail+start < best {
			best, how = up+tail+start, again
		}
		if down+start < best {
			best, how = down+start, fresh
		}
		left := step{up: how}
		if up+tail < down {
			down, left.down = up+tail, 1
		}
		up, down, steps[i] = best, down+price, left
	}
	var spans []need
	isUp := up < down
	for i, n := range slices.Backward(needs) {
		if !isUp {
			isUp = steps[i].down == 1
			continue
		}
		if how := steps[i].up; how == held {
			spans = append(spans, need{needs[i-1].at, n.until})
		} else {
			spans = append(spans, n)
			isUp = how == again
		}
	}
	return join(spans)
}

// join merges spans, latest first, that touch.
func join(spans []need) []need {
	var joined []need
	for _, s := range slices.Backward(spans) {
		if n := len(joined); n > 0 && s.at <= joined[n-1].until {
			joined[n-1].until = max(joined[n-1].until, s.until)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}
