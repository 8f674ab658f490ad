package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"modeldock.io/internal/modelspec"
)

func sizes(t *testing.T, requests ...Request) *Sizes {
	t.Helper()
	s, err := NewSizes(requests)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Four cards of 20000 MiB, of which the first is used.
func TestClassesPreferDifferentCards(t *testing.T) {
	t.Parallel()
	llm := Request{MiB: 4000, Cards: 1, Class: modelspec.ClassLLM, Workload: modelspec.WorkloadOnline}
	batch, recommender, pair := llm, llm, llm
	batch.Workload, recommender.Class, pair.Cards = modelspec.WorkloadBatch, modelspec.ClassRecommender, 2
	one, two := []Allocation{{"p", "n-a", 5000}}, []Allocation{{"p", "n-a", 5000}, {"q", "n-b", 12000}}
	large := sizes(t, Request{MiB: 20000, Cards: 1}, llm)
	for name, c := range map[string]struct {
		request Request
		held    []Allocation
		seen    *Sizes
		want    string
	}{
		"llm online alone":                               {llm, one, nil, "n-b"},
		"llm online alone among its like":                {llm, one, sizes(t, llm), "n-b"},
		"llm online where cards are scarce":              {llm, two, nil, "n-b"},
		"llm online would break what is asked for whole": {llm, one, large, "n-a"},
		"llm online beside models of several cards":      {llm, one, sizes(t, pair), "n-a"},
		"batch fills the tightest hole":                  {batch, two, nil, "n-b"},
		"batch leaves whole cards":                       {batch, one, nil, "n-a"},
		"recommender packs":                              {recommender, one, nil, "n-a"},
	} {
		d, err := Place([]Node{node("n", 20000, 20000, 20000, 20000)}, c.held, c.request, c.seen)
		if err != nil || !d.Fits() || d.Cards[0].UUID != c.want {
			t.Errorf("%s: %+v (%v), want %s", name, d, err, c.want)
		}
	}
}

// Best fit would take the tighter card and leave 1000 MiB on it that nobody
// can use; the other one then still holds two of the usual size.
func TestRemaindersCount(t *testing.T) {
	t.Parallel()
	n := node("n", 9000, 12000)
	seen := sizes(t, Request{MiB: 4000, Cards: 1})
	r := Request{MiB: 4000, Cards: 1}
	d, err := Place([]Node{n}, nil, r, seen)
	if err != nil || d.Cards[0].UUID != "n-a" {
		t.Fatalf("equal losses: the tighter card: %+v (%v)", d, err)
	}
	r.MiB = 8000 // 9000 → 1000 loses nothing more; 12000 → 4000 loses nothing at all
	seen = sizes(t, Request{MiB: 4500, Cards: 1}, Request{MiB: 4500, Cards: 1}, r)
	n = node("n", 9000, 12500)
	d, err = Place([]Node{n}, nil, r, seen)
	if err != nil || d.Cards[0].UUID != "n-b" {
		t.Fatalf("9000 MiB hold two of 4500, 12500 hold 8000 and one of 4500: %+v (%v)", d, err)
	}
	v, err := NewView(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lost := v.FragmentedMiB(sizes(t, Request{MiB: 4500, Cards: 1})); lost != 3500 {
		t.Fatalf("%d MiB are lost to requests of 4500, want 12500 − 2 × 4500", lost)
	}
}

func TestConstraints(t *testing.T) {
	t.Parallel()
	n := node("n", 10000, 10000, 10000)
	n.Cards[0].Model, n.Cards[1].Model, n.Cards[2].Model = "A100", "A100", "L4"
	for name, c := range map[string]struct {
		only, not Cards
		want      string
	}{
		"anything":            {Cards{}, Cards{}, "n-a"},
		"one uuid":            {Cards{UUIDs: []string{"n-b"}}, Cards{}, "n-b"},
		"one model":           {Cards{Models: []string{"L4"}}, Cards{}, "n-c"},
		"not a model":         {Cards{}, Cards{Models: []string{"A100"}}, "n-c"},
		"a model, not a card": {Cards{Models: []string{"A100"}}, Cards{UUIDs: []string{"n-a"}}, "n-b"},
		"nothing is left":     {Cards{Models: []string{"A100"}}, Cards{Models: []string{"A100"}}, ""},
	} {
		d := place(t, []Node{n}, nil, Request{MiB: 5000, Cards: 1, Only: c.only, Not: c.not})
		if c.want == "" {
			if want := "largest fragment 0 MiB < 5000 MiB on node n (0 cards, 0 MiB free in total, 3 more excluded by the request)"; d.Reason != want {
				t.Errorf("%s: %+v", name, d)
			}
			continue
		}
		if !d.Fits() || d.Cards[0].UUID != c.want {
			t.Errorf("%s: %+v, want %s", name, d, c.want)
		}
	}
}

// What is kept up to date is what counting the remembered ones anew gives.
func TestRecentIsTheLastRequests(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var recent Recent
	var all []Request
	for i := range 3 * recentRequests {
		r := Request{MiB: 1 + random.Int64N(90000), Cards: 1}
		if i < recentRequests { // later all have one card
			r.Cards += random.IntN(4)
		}
		all = append(all, r)
		if err := recent.Saw(fmt.Sprint(i), r); err != nil {
			t.Fatal(err)
		}
		if i%97 != 0 && i < 3*recentRequests-1 {
			continue
		}
		want, err := NewSizes(all[max(0, len(all)-recentRequests):])
		if err != nil {
			t.Fatal(err)
		}
		if got := recent.Sizes(); *got != *want {
			t.Fatalf("after %d requests: slope %d, several %t; want %d, %t", i+1, got.slope, got.several, want.slope, want.several)
		}
	}
}

func TestRecentCountsEachOwnerOnce(t *testing.T) {
	t.Parallel()
	var recent Recent
	if s := recent.Sizes(); s != nil {
		t.Fatal(s)
	}
	for range 3 {
		if err := recent.Saw("pod", Request{MiB: 4000, Cards: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(recent.owners) != 1 {
		t.Fatalf("%v", recent.owners)
	}
	for i := range recentRequests {
		if err := recent.Saw(string(rune('a'+i)), Request{MiB: 8000, Cards: 1}); err != nil {
			t.Fatal(err)
		}
	}
	s := recent.Sizes()
	if len(recent.owners) != recentRequests || len(recent.requests) != recentRequests {
		t.Fatal(len(recent.owners), len(recent.requests))
	}
	if got := s.unusable(7900) / s.slope; got != 7900 { // the one of 4000 is forgotten
		t.Fatalf("%d of 7900 MiB are lost", got)
	}
	if err := recent.Saw("x", Request{MiB: -1, Cards: 1}); err == nil {
		t.Fatal("a negative size was remembered")
	}
}
