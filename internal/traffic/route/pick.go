package route

// requestCost is what one request weighs beside its tokens.
const requestCost = 256

// candidate is a replica that may take the request, as it was when looked at.
type candidate struct {
	r         *replica
	state     int64
	cost      int64 // tokens in flight, requests and what the engine reports
	saturated bool  // by the engine's own, fresh word
	probe     bool  // its breaker is half open
}

// choose returns the index of the one that shall take a request with this
// affinity (0: none): where its prefix is cached as long as that replica is
// not busier than the others, else the better of two drawn from the best.
func choose(cs []candidate, affinity uint64, random func(n int) int) int {
	if len(cs) == 1 {
		return 0
	}
	if affinity != 0 {
		if i := hashed(cs, affinity); i >= 0 {
			return i
		}
	}
	best := cs
	if n := unsaturated(cs); n > 0 {
		best = cs[:n]
	}
	return pick(len(best), func(i int) int64 { return best[i].cost }, random)
}

// unsaturated moves those with room to the front and counts them.
func unsaturated(cs []candidate) int {
	n := 0
	for i := range cs {
		if !cs[i].saturated {
			cs[i], cs[n] = cs[n], cs[i]
			n++
		}
	}
	return n
}

// hashed is consistent hashing with bounded loads (V. Mirrokni, M. Thorup,
// M. Zadimoghaddam, SODA 2018) over rendezvous hashing: the first replica in
// the key's own order whose load stays within 1.25 times the mean. -1 if that
// is none, which only saturation can cause.
func hashed(cs []candidate, affinity uint64) int {
	total := 0
	for i := range cs {
		total += runningIn(cs[i].state)
	}
	bound := boundOf(total, len(cs))
	best, highest := -1, uint64(0)
	for i := range cs {
		if cs[i].saturated || runningIn(cs[i].state)+1 > bound {
			continue
		}
		if score := mix(cs[i].r.seed ^ affinity); best < 0 || score > highest {
			best, highest = i, score
		}
	}
	return best
}

// boundOf is ⌈1.25·(total+1)/n⌉, the most requests on one of n replicas after
// one more has come.
func boundOf(total, n int) int { return (5*(total+1) + 4*n - 1) / (4 * n) }

// pick chooses one of n by the power of two choices: of two drawn at random
// the cheaper one. Against "always the cheapest" it keeps several gateways,
// each of which sees only its own requests, from running in a herd to the same
// replica. (M. Mitzenmacher's doctoral thesis on two choices in load
// balancing, Berkeley 1996.)
func pick(n int, cost func(i int) int64, random func(n int) int) int {
	if n == 1 {
		return 0
	}
	a := random(n)
	b := random(n - 1)
	if b >= a {
		b++ // the second of two different ones
	}
	if cost(b) < cost(a) {
		return b
	}
	return a
}
