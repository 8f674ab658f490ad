// Package placement decides which card a model goes to, by memory and not by
// count (account 2). It is pure: data in, a decision or a reason with figures
// out. One machine and the cluster's scheduler call the same functions.
package placement

import "modeldock.io/internal/modelspec"

// Node is one machine with its cards.
type Node struct {
	Name  string
	Cards []Card
}

// Card is one physical GPU. All sizes are MiB.
type Card struct {
	UUID           string
	Model          string
	TotalMiB       int64
	ReservedMiB    int64 // kept back for driver and runtime, see DefaultReserve
	UnaccountedMiB int64 // measured as used by nobody that we know
	Healthy        bool
}

// Allocation is memory on a card that belongs to an owner (a replica's or a
// Pod's UID) until its last process is gone.
type Allocation struct {
	Owner string
	Card  string // uuid
	MiB   int64
}

// Request asks for memory on one or several cards of one node, all or none.
type Request struct {
	MiB   int64 // per card
	Cards int
	Class modelspec.Class
}

// Chosen is one card of a decision, with what was free before it was taken.
type Chosen struct {
	UUID    string
	FreeMiB int64
}

// Reserve says how much of a card is kept back: the larger of a share of its
// memory and a minimum.
type Reserve struct {
	Percent int64
	MinMiB  int64
}

// DefaultReserve is max(3 %, 256 MiB).
func DefaultReserve() Reserve { return Reserve{Percent: 3, MinMiB: 256} }

// Of returns what is kept back of a card of the given size.
func (r Reserve) Of(totalMiB int64) int64 {
	// total/100 first, so that no total overflows; the remainder is rounded up.
	share := totalMiB/100*r.Percent + (totalMiB%100*r.Percent+99)/100
	return max(share, r.MinMiB)
}
