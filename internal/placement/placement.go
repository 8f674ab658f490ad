// Package placement decides which card a model goes to, by memory and not by
// count (account 2). It is pure: data in, a decision or a reason with figures
// out. One machine and the cluster's scheduler call the same functions.
//
// A View is what one node has free. View.Fit chooses its cards for a Request,
// Choose does so over many nodes; both prefer the choice that leaves the least
// memory which requests of the sizes seen lately could not use, then what the
// request's class prefers, then the tightest fit, then the smaller uuid.
//
// All sizes are MiB, from 1 to an exbibyte, so that no sum here overflows;
// what is out of range is an error and never a default.
package placement

import (
	"fmt"

	"modeldock.io/internal/modelspec"
)

const (
	// maxMiB is the largest memory that may be stated for anything: 2^40 MiB is
	// an exbibyte, far above any card and far below what sums could overflow with.
	maxMiB = int64(1) << 40
	// MaxCards is the largest number of cards of one request.
	MaxCards = modelspec.MaxGPUs
)

// Node is one machine with its cards.
type Node struct {
	Name  string
	Cards []Card
}

// Card is one physical GPU, or a simulated one.
type Card struct {
	UUID           string
	Index          int    // its number on the node, passed through to Chosen
	Model          string // for example "NVIDIA A100-SXM4-40GB"
	TotalMiB       int64
	ReservedMiB    int64 // kept back for driver and runtime, see Reserve
	UnaccountedMiB int64 // measured as used by nobody that we know, see Sample
	Stale          bool  // its measurement was too old to be counted
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
	MiB      int64 // per card
	Cards    int
	Class    modelspec.Class
	Workload modelspec.Workload
	Only     Cards // if not empty: no other cards
	Not      Cards // never these
}

// Cards names cards by uuid or by model.
type Cards struct {
	UUIDs  []string
	Models []string
}

// Check reports what makes the request one that no card could be chosen for.
func (r *Request) Check() error {
	if r.MiB <= 0 || r.MiB > maxMiB || r.Cards <= 0 || r.Cards > MaxCards {
		return fmt.Errorf("a request of %d MiB on each of %d cards cannot be placed: memory must be from 1 to %d MiB, and cards from 1 to %d",
			r.MiB, r.Cards, maxMiB, MaxCards)
	}
	return nil
}

// Chosen is one card of a decision, with what was free before it was taken.
type Chosen struct {
	UUID    string
	Index   int
	FreeMiB int64
}

// Reserve says how much of a card is kept back: the larger of a share of its
// memory and a minimum.
type Reserve struct {
	Percent int64 // 0…100
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
