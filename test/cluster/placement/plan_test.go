//go:build cluster

package placement

import (
	"math/rand/v2"
	"strconv"
)

// deed is what happens to Pods in a storm.
type deed int

const (
	create  deed = iota
	end          // deleted gracefully
	replace      // deleted at once, and made anew under the same name
	finish       // its containers have done their work
	cut          // the scheduler hears and says nothing for a while
)

type step struct {
	do     deed
	pod    int
	demand demand // of create and replace
}

type demand struct {
	memory string // as its annotation has it
	cards  int
	urgent bool
}

// nonsense is what nobody may be bound with.
var nonsense = []string{"4Gi", "0", "-1", "1e4", " 4096", "17179869184Mi", "9223372036854775808", "18446744073709551616", ""}

// plan makes the steps of a storm, the same ones for the same seed. About a
// third of all Pods leave while others come.
func plan(seed uint64, pods int) []step {
	random := rand.New(rand.NewPCG(seed, 1))
	var steps []step
	var living []int
	for next := 0; next < pods; {
		switch {
		case len(living) < pods/20 || random.IntN(100) < 70:
			steps = append(steps, step{do: create, pod: next, demand: draw(random)})
			living = append(living, next)
			next++
		case random.IntN(100) < 3:
			steps = append(steps, step{do: cut})
		default:
			i := random.IntN(len(living))
			s := step{do: []deed{end, end, replace, replace, finish}[random.IntN(5)], pod: living[i]}
			if s.do == replace {
				s.demand = draw(random)
			} else {
				living[i] = living[len(living)-1]
				living = living[:len(living)-1]
			}
			steps = append(steps, s)
		}
	}
	return steps
}

// draw makes a demand: of small and large models, on one card or several.
func draw(random *rand.Rand) demand {
	d := demand{cards: []int{1, 1, 1, 1, 2, 2, 3, 4, 4, 8}[random.IntN(10)], urgent: random.IntN(100) < 3}
	bands := [][2]int{{2000, 6000}, {7000, 15000}, {7000, 15000}, {16000, 23000}, {16000, 23000}}
	band := bands[random.IntN(len(bands))]
	d.memory = strconv.Itoa(band[0] + random.IntN(band[1]-band[0]))
	if random.IntN(100) < 2 {
		d.memory = nonsense[random.IntN(len(nonsense))]
	}
	return d
}
