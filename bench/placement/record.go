package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// recipe is how a recording was made: sizes drawn with a fixed seed.
type recipe struct {
	about  string
	nodes  []string // card sizes of each
	kinds  []kind
	events int
	churn  int // percent of the events that end the request of somebody who runs
}

// kind is one sort of model and how often it is asked for.
type kind struct {
	weight   int
	mib      []int64
	cards    int
	class    string
	workload string
}

func node(cards int, mib string) string {
	return strings.TrimSuffix(strings.Repeat(mib+",", cards), ",")
}

// nodes are n nodes of 8 equal cards.
func nodes(n int, mib string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = node(8, mib)
	}
	return all
}

// recipes of all mixes. The sizes are those of models of 1 to 34 billion
// parameters in 4, 8 and 16 bits with room for their caches, of rankers and of
// vision models.
func recipes() map[string]recipe {
	small := kind{6, []int64{3000, 4096, 5500, 6000, 7500}, 1, "llm", "online"}
	middle := kind{3, []int64{9000, 10240, 12000, 16000}, 1, "llm", "online"}
	large := kind{1, []int64{18000, 20480, 22000}, 1, "llm", "online"}
	rankers := kind{8, []int64{1024, 1500, 2048, 3000}, 1, "recommender", "online"}
	vision := kind{4, []int64{2500, 4000, 6500}, 1, "vision", "online"}
	batch := kind{3, []int64{4096, 8192, 14000}, 1, "llm", "batch"}
	mixed := []string{node(8, "24576"), node(8, "40960"), node(4, "81920"), "24576,24576,49152,49152"}
	return map[string]recipe{
		"llm":           {"language models on cards of 24 GiB", nodes(4, "24576"), []kind{small, middle, large}, 600, 0},
		"recommender":   {"rankers with some vision models", nodes(2, "24576"), []kind{rankers, vision, {1, []int64{9000, 12000}, 1, "vision", "online"}}, 600, 0},
		"everything":    {"all kinds on mixed nodes", mixed, []kind{small, middle, large, rankers, vision, batch}, 900, 0},
		"several-cards": {"models that are spread over cards among small ones", nodes(4, "40960"), []kind{small, middle, batch, {1, []int64{14000, 20000}, 2, "llm", "online"}, {1, []int64{17000}, 4, "llm", "online"}}, 600, 0},
		"churn":         {"models that come and go on mixed nodes", mixed, []kind{small, middle, large, rankers, batch}, 4000, 45},
		"halves":        {"sizes around a half and a third of a card", nodes(4, "24576"), []kind{{4, []int64{11000, 11900, 12600}, 1, "llm", "online"}, {3, []int64{7500, 7900, 8300}, 1, "vision", "online"}, {3, []int64{3500}, 1, "recommender", "online"}}, 600, 0},
	}
}

// recordAll writes every recipe's recording into dir.
func recordAll(dir string) error {
	for name, r := range recipes() {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), r.record(name), 0o644); err != nil {
			return fmt.Errorf("record %s: %w", name, err)
		}
	}
	return nil
}

func (r recipe) record(name string) []byte {
	random := rand.New(rand.NewPCG(20261130, uint64(len(name))))
	out := &bytes.Buffer{}
	fmt.Fprintf(out, "# %s: %s\n", name, r.about)
	for i, sizes := range r.nodes {
		fmt.Fprintf(out, "node gpu-%d %s\n", i+1, sizes)
	}
	var deck []kind
	for _, k := range r.kinds {
		for range k.weight {
			deck = append(deck, k)
		}
	}
	var running []string
	for i := range r.events {
		if len(running) > 0 && random.IntN(100) < r.churn {
			at := random.IntN(len(running))
			fmt.Fprintln(out, "-", running[at])
			running = append(running[:at], running[at+1:]...)
			continue
		}
		k := deck[random.IntN(len(deck))]
		owner := fmt.Sprintf("m%d", i+1)
		fmt.Fprintln(out, "+", owner, k.mib[random.IntN(len(k.mib))], k.cards, k.class, k.workload)
		running = append(running, owner)
	}
	return out.Bytes()
}
