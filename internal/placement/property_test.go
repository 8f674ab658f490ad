package placement

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func genNodes(t *rapid.T) []Node {
	var nodes []Node
	for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		nd := Node{Name: fmt.Sprintf("n%d", n)}
		for c := range rapid.IntRange(0, 4).Draw(t, "cards") {
			total := rapid.Int64Range(1000, 80000).Draw(t, "total")
			nd.Cards = append(nd.Cards, Card{
				UUID: fmt.Sprintf("c%d-%d", n, c), TotalMiB: total, ReservedMiB: DefaultReserve().Of(total),
				UnaccountedMiB: rapid.Int64Range(0, 500).Draw(t, "unaccounted"),
				Healthy:        rapid.IntRange(0, 9).Draw(t, "health") > 0,
			})
		}
		nodes = append(nodes, nd)
	}
	return nodes
}

func genRequest(t *rapid.T) Request {
	return Request{MiB: rapid.Int64Range(1, 40000).Draw(t, "mib"), Cards: rapid.IntRange(1, 3).Draw(t, "gpus")}
}

// A storm of placements and departures never takes a card over what it has,
// never uses an unhealthy one and never splits a request over nodes.
func TestNeverOverCapacity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := genNodes(t)
		var held []Allocation
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				gone := held[rapid.IntRange(0, len(held)-1).Draw(t, "who")].Owner
				held = slices.DeleteFunc(held, func(a Allocation) bool { return a.Owner == gone })
				continue
			}
			r := genRequest(t)
			d, err := Place(nodes, held, r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d.Fits() == (d.Reason != "") {
				t.Fatalf("exactly one of cards and reason: %+v", d)
			}
			for _, c := range d.Cards {
				held = append(held, Allocation{fmt.Sprintf("o%d", i), c.UUID, r.MiB})
			}
			checkDecision(t, nodes, d, r)
			checkCapacity(t, nodes, held)
		}
	})
}

func checkDecision(t *rapid.T, nodes []Node, d Decision, r Request) {
	if !d.Fits() {
		return
	}
	if len(d.Cards) != r.Cards {
		t.Fatalf("%d cards were asked for, got %+v", r.Cards, d)
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		for _, c := range n.Cards {
			for _, chosen := range d.Cards {
				if chosen.UUID != c.UUID {
					continue
				}
				if seen[c.UUID] || n.Name != d.Node || !c.Healthy {
					t.Fatalf("card %+v of node %s does not belong into %+v", c, n.Name, d)
				}
				seen[c.UUID] = true
			}
		}
	}
}

func checkCapacity(t *rapid.T, nodes []Node, held []Allocation) {
	for _, n := range nodes {
		for _, c := range n.Cards {
			used := c.ReservedMiB + c.UnaccountedMiB
			took := false
			for _, a := range held {
				if a.Card == c.UUID {
					used, took = used+a.MiB, true
				}
			}
			if took && used > c.TotalMiB {
				t.Fatalf("card %s holds %d of %d MiB", c.UUID, used, c.TotalMiB)
			}
		}
	}
}

// The order in which nodes, cards and allocations are listed is no input.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := genNodes(t), genRequest(t)
		first, err := Place(nodes, nil, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(nodes)
		slices.Reverse(shuffled)
		for i := range shuffled {
			shuffled[i].Cards = slices.Clone(shuffled[i].Cards)
			slices.Reverse(shuffled[i].Cards)
		}
		second, err := Place(shuffled, nil, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first.Fits() != second.Fits() || !reflect.DeepEqual(first.Cards, second.Cards) || first.Node != second.Node {
			t.Fatalf("%+v and then %+v", first, second)
		}
	})
}

// What fits still fits with less asked for, or with an allocation gone.
func TestMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := genNodes(t), genRequest(t)
		var held []Allocation
		for _, n := range nodes {
			for _, c := range n.Cards {
				if rapid.Bool().Draw(t, "used") {
					held = append(held, Allocation{"o", c.UUID, rapid.Int64Range(1, c.TotalMiB).Draw(t, "held")})
				}
			}
		}
		d, err := Place(nodes, held, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Fits() {
			return
		}
		less := r
		less.MiB = rapid.Int64Range(1, r.MiB).Draw(t, "less")
		for what, try := range map[string]func() (Decision, error){
			"less memory":   func() (Decision, error) { return Place(nodes, held, less, nil) },
			"fewer cards":   func() (Decision, error) { return Place(nodes, held, Request{MiB: r.MiB, Cards: 1}, nil) },
			"nothing held":  func() (Decision, error) { return Place(nodes, nil, r, nil) },
			"one more node": func() (Decision, error) { return Place(append(nodes, node("z", 100)), held, r, nil) },
		} {
			if again, err := try(); err != nil || !again.Fits() {
				t.Fatalf("%s: %+v fitted, but now %+v (%v)", what, d, again, err)
			}
		}
	})
}
