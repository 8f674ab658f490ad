package main

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

//go:embed mixes/*.txt
var recordings embed.FS

// mix is a recording: a cluster, and what was asked of it in what order.
type mix struct {
	name   string
	nodes  []placement.Node
	events []event
}

// event is a request, or its end.
type event struct {
	owner   string
	leaves  bool
	request placement.Request
}

func readAll() ([]mix, error) {
	files, err := fs.Glob(recordings, "mixes/*.txt")
	if err != nil {
		return nil, err
	}
	var mixes []mix
	for _, file := range files {
		m, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		mixes = append(mixes, m)
	}
	return mixes, nil
}

// read parses a recording: lines "node NAME MIB,MIB,…", "+ OWNER MIB CARDS
// CLASS WORKLOAD" and "- OWNER"; "#" begins a comment.
func read(file string) (mix, error) {
	in, err := recordings.Open(file)
	if err != nil {
		return mix{}, err
	}
	defer func() { _ = in.Close() }()
	m := mix{name: strings.TrimSuffix(strings.TrimPrefix(file, "mixes/"), ".txt")}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		if err := m.line(strings.Fields(lines.Text())); err != nil {
			return mix{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return m, lines.Err()
}

// dealt is the mix in another order: its requests are dealt anew among its
// arrivals, so that as many come and go at the same moments. Order 0 is as
// recorded.
func (m mix) dealt(order int) mix {
	if order == 0 {
		return m
	}
	random := rand.New(rand.NewPCG(uint64(order), 0))
	m.events = slices.Clone(m.events)
	var arrivals []int
	for i, e := range m.events {
		if !e.leaves {
			arrivals = append(arrivals, i)
		}
	}
	random.Shuffle(len(arrivals), func(a, b int) {
		x, y := &m.events[arrivals[a]].request, &m.events[arrivals[b]].request
		*x, *y = *y, *x
	})
	return m
}

func (m *mix) line(f []string) error {
	switch {
	case len(f) == 0 || f[0] == "#":
		return nil
	case f[0] == "node" && len(f) == 3:
		n, err := parseNode(f[1], f[2])
		m.nodes = append(m.nodes, n)
		return err
	case f[0] == "+" && len(f) == 6:
		mib, err := placement.ParseMemory(f[2])
		if err != nil {
			return err
		}
		cards, err := placement.ParseCount(f[3])
		m.events = append(m.events, event{owner: f[1], request: placement.Request{
			MiB: mib, Cards: cards, Class: modelspec.Class(f[4]), Workload: modelspec.Workload(f[5]),
		}})
		return err
	case f[0] == "-" && len(f) == 2:
		m.events = append(m.events, event{owner: f[1], leaves: true})
		return nil
	}
	return fmt.Errorf("%q is neither a node nor a request nor its end", strings.Join(f, " "))
}

func parseNode(name, sizes string) (placement.Node, error) {
	n := placement.Node{Name: name}
	for i, s := range strings.Split(sizes, ",") {
		mib, err := placement.ParseMemory(s)
		if err != nil {
			return n, err
		}
		n.Cards = append(n.Cards, placement.Card{
			UUID: name + "-" + strconv.Itoa(i), Index: i, TotalMiB: mib,
			ReservedMiB: placement.DefaultReserve().Of(mib), Healthy: true,
		})
	}
	return n, nil
}
