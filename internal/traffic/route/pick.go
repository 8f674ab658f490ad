package route

// pick chooses one of n endpoints by the power of two choices: of two drawn at
// random the less loaded one. Against "always the least loaded" it keeps
// several gateways, each of which sees only its own requests, from running in
// a herd to the same replica. (M. Mitzenmacher's doctoral thesis on two
// choices in load balancing, Berkeley 1996.)
func pick(n int, load func(i int) int, random func(n int) int) int {
	if n == 1 {
		return 0
	}
	a := random(n)
	b := random(n - 1)
	if b >= a {
		b++ // the second of two different ones
	}
	if load(b) < load(a) {
		return b
	}
	return a
}
