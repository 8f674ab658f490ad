package main

import (
	"slices"

	"modeldock.io/internal/placement"
)

// whole gives every model cards of its own, as counting nvidia.com/gpu does:
// the smallest that are large enough.
type whole struct{ *cluster }

func newWhole(nodes []placement.Node) (policy, error) {
	c, err := newCluster(nodes)
	return whole{c}, err
}

func (w whole) place(owner string, r placement.Request) (outcome, error) {
	r.Class, r.Workload = "", ""
	for _, t := range w.placed { // a card that is used is none
		for _, c := range t.cards {
			r.Not.UUIDs = append(r.Not.UUIDs, c.UUID)
		}
	}
	return w.choose(owner, r, nil)
}

// total compares a request with what a node has free altogether and leaves the
// card to luck, here to the best luck: if any card of that node can hold the
// model it starts there, else its start fails. A failed start stays counted,
// as a Pod does that crashes and starts again.
type total struct {
	*cluster
	free   []int64          // by its own account, per node
	counts map[string]taken // what it believes of each owner
}

func newTotal(nodes []placement.Node) (policy, error) {
	c, err := newCluster(nodes)
	if err != nil {
		return nil, err
	}
	t := &total{cluster: c, counts: map[string]taken{}}
	for _, v := range c.views {
		t.free = append(t.free, v.FreeMiB())
	}
	return t, nil
}

func (t *total) place(owner string, r placement.Request) (outcome, error) {
	all := r.MiB * int64(r.Cards)
	fullest := -1
	for i, free := range t.free {
		if free >= all && (fullest < 0 || free < t.free[fullest]) {
			fullest = i
		}
	}
	if fullest < 0 {
		return rejected, nil
	}
	t.free[fullest] -= all
	t.counts[owner] = taken{node: fullest, mib: all}
	r.Class, r.Workload = "", ""
	choice, fits := t.views[fullest].Fit(&r, nil, nil)
	if !fits {
		return failed, nil
	}
	return started, t.take(owner, fullest, slices.Clone(choice.Cards), r.MiB)
}

func (t *total) leave(owner string) error {
	if c, counted := t.counts[owner]; counted {
		t.free[c.node] += c.mib
		delete(t.counts, owner)
	}
	return t.cluster.leave(owner)
}
