package placement

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"modeldock.io/internal/modelspec"
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
	return Request{
		MiB: rapid.Int64Range(1, 40000).Draw(t, "mib"), Cards: rapid.IntRange(1, 3).Draw(t, "gpus"),
		Class:    rapid.SampledFrom([]modelspec.Class{"", modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender}).Draw(t, "class"),
		Workload: rapid.SampledFrom([]modelspec.Workload{modelspec.WorkloadOnline, modelspec.WorkloadBatch}).Draw(t, "workload"),
	}
}

// genSizes is nothing seen, or requests of up to four sizes.
func genSizes(t *rapid.T) *Sizes {
	var seen []Request
	for range rapid.IntRange(0, 4).Draw(t, "sizes") {
		seen = append(seen, genRequest(t))
	}
	s, err := NewSizes(seen)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func genHeld(t *rapid.T, nodes []Node) []Allocation {
	var held []Allocation
	for _, n := range nodes {
		for _, c := range n.Cards {
			for i := range rapid.IntRange(0, 3).Draw(t, "owners") {
				held = append(held, Allocation{fmt.Sprintf("%s/%d", c.UUID, i), c.UUID, rapid.Int64Range(1, c.TotalMiB/2).Draw(t, "held")})
			}
		}
	}
	return held
}

// A storm of placements and departures never takes a card over what it has,
// never uses an unhealthy one and never splits a request over nodes.
func TestNeverOverCapacity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, seen := genNodes(t), genSizes(t)
		var held []Allocation
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				gone := held[rapid.IntRange(0, len(held)-1).Draw(t, "who")].Owner
				held = slices.DeleteFunc(held, func(a Allocation) bool { return a.Owner == gone })
				continue
			}
			r := genRequest(t)
			d, err := Place(nodes, held, r, seen)
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

// The order in which nodes, cards, allocations and sizes are listed is no input.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, r, asked := genNodes(t), genRequest(t), []Request{genRequest(t), genRequest(t), genRequest(t)}
		held := genHeld(t, nodes)
		first := placedWith(t, nodes, held, r, asked)
		if again := placedWith(t, nodes, held, r, asked); !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v and then %+v", first, again)
		}
		shuffled := slices.Clone(nodes)
		slices.Reverse(shuffled)
		for i := range shuffled {
			shuffled[i].Cards = slices.Clone(shuffled[i].Cards)
			slices.Reverse(shuffled[i].Cards)
		}
		slices.Reverse(held)
		slices.Reverse(asked)
		if second := placedWith(t, shuffled, held, r, asked); !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v and then %+v", first, second)
		}
	})
}

func placedWith(t *rapid.T, nodes []Node, held []Allocation, r Request, asked []Request) Decision {
	seen, err := NewSizes(asked)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Place(nodes, held, r, seen)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What fits still fits with less asked for, with more memory anywhere, with an
// allocation gone, and whatever was asked for lately.
func TestMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := genNodes(t), genRequest(t)
		held, seen := genHeld(t, nodes), genSizes(t)
		d, err := Place(nodes, held, r, seen)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Fits() {
			return
		}
		less, fewer := r, r
		less.MiB, fewer.Cards = rapid.Int64Range(1, r.MiB).Draw(t, "less"), 1
		larger := slices.Clone(nodes)
		for i := range larger {
			larger[i].Cards = slices.Clone(larger[i].Cards)
			for j := range larger[i].Cards {
				larger[i].Cards[j].TotalMiB += rapid.Int64Range(0, 5000).Draw(t, "more")
			}
		}
		left := slices.Clone(held)
		if len(left) > 0 {
			gone := rapid.IntRange(0, len(left)-1).Draw(t, "gone")
			left = slices.Delete(left, gone, gone+1)
		}
		for what, try := range map[string]func() (Decision, error){
			"less memory":   func() (Decision, error) { return Place(nodes, held, less, seen) },
			"fewer cards":   func() (Decision, error) { return Place(nodes, held, fewer, seen) },
			"larger cards":  func() (Decision, error) { return Place(larger, held, r, seen) },
			"one left":      func() (Decision, error) { return Place(nodes, left, r, seen) },
			"nothing held":  func() (Decision, error) { return Place(nodes, nil, r, seen) },
			"nothing seen":  func() (Decision, error) { return Place(nodes, held, r, nil) },
			"one more node": func() (Decision, error) { return Place(append(nodes, node("z", 100)), held, r, seen) },
		} {
			if again, err := try(); err != nil || !again.Fits() {
				t.Fatalf("%s: %+v fitted, but now %+v (%v)", what, d, again, err)
			}
		}
	})
}

// A view that was changed is the same as one that was made anew, and what the
// search keeps beside it never disagrees with it.
func TestTakeAndGiveLeaveNoTrace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, n := range genNodes(t) {
			held := genHeld(t, []Node{n})
			fresh, err := NewView(n, nil)
			if err != nil {
				t.Fatal(err)
			}
			v := fresh.Clone()
			for _, give := range []bool{false, true} {
				for _, a := range rapid.Permutation(held).Draw(t, "order") {
					change := v.Take
					if give {
						change = v.Give
					}
					if err := change(a.Card, a.MiB); err != nil {
						t.Fatal(err)
					}
				}
				want := fresh
				if !give {
					if want, err = NewView(n, held); err != nil {
						t.Fatal(err)
					}
				}
				if !reflect.DeepEqual(v, want) {
					t.Fatalf("%+v, want %+v", v, want)
				}
			}
		}
	})
}

// Rank orders nodes as Compare does, as far as it can tell them apart.
func TestRankFollowsCompare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, r, seen := genNodes(t), genRequest(t), genSizes(t)
		held := genHeld(t, nodes)
		var choices []Choice
		for _, n := range nodes {
			v, err := NewView(n, held)
			if err != nil {
				t.Fatal(err)
			}
			if c, fits := v.Fit(&r, seen, nil); fits {
				choices = append(choices, c)
			}
		}
		for _, a := range choices {
			for _, b := range choices {
				if far := a.rank.cost+weights < b.rank.cost; far && (a.Rank() >= b.Rank() || a.Compare(b) >= 0) {
					t.Fatalf("%+v (%d) is better than %+v (%d)", a, a.Rank(), b, b.Rank())
				}
				if a.Compare(b) != -b.Compare(a) || a.Compare(b) == 0 && a.Node != b.Node {
					t.Fatalf("%+v against %+v: %d and %d", a, b, a.Compare(b), b.Compare(a))
				}
			}
		}
	})
}
