package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"modeldock.io/internal/elastic/simulate"
)

// simulation is what the command found.
type simulation struct {
	Trace    string            `json:"trace"`
	Policies []simulate.Result `json:"policies"`
	Matches  []simulate.Match  `json:"matches,omitempty"`
}

// draw writes the timelines to the files that were asked for.
func (f simulateFlags) draw(trace []simulate.Request, results []simulate.Result) error {
	if err := writeFile(f.csv, func(to io.Writer) error { return simulate.CSV(to, results) }); err != nil {
		return err
	}
	return writeFile(f.plot, func(to io.Writer) error { return simulate.SVG(to, filepath.Base(f.trace), trace, results) })
}

func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	err = write(file)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write the timeline: %w", closed)
	}
	return err
}

func (c *cli) showSimulation(doc simulation) error {
	t := table{head: []string{"POLICY", "GPU-HOURS", "IN TIME", "LATE", "FIRST P50", "P95", "P99", "WAIT P99", "COLD", "WAKES", "TURNS", "PER WINDOW"}}
	var names []string
	for _, r := range doc.Policies {
		names = append(names, r.Name)
		t.add(r.Name, fmt.Sprintf("%.2f", r.GPUHours), fmt.Sprintf("%.2f %%", 100*r.Attainment), fmt.Sprint(r.Late),
			fmt.Sprintf("%.2f s", r.FirstChunk.P50), fmt.Sprintf("%.2f s", r.FirstChunk.P95), fmt.Sprintf("%.2f s", r.FirstChunk.P99),
			fmt.Sprintf("%.2f s", r.Wait.P99), fmt.Sprint(r.ColdStarts), fmt.Sprint(r.Wakes), fmt.Sprint(r.DirectionChanges), fmt.Sprintf("%.2f, most %d", r.PerDownWindow, r.Closest))
	}
	if err := c.print(doc, names, t); err != nil || c.opts.output != "" && c.opts.output != "table" {
		return err
	}
	for _, r := range doc.Policies {
		if err := r.Plot(c.out, 80); err != nil {
			return failed(err)
		}
	}
	for _, m := range doc.Matches {
		if err := c.showMatch(m, doc.Policies[0]); err != nil {
			return err
		}
	}
	return nil
}

// showMatch prints a comparison with the first policy.
func (c *cli) showMatch(m simulate.Match, first simulate.Result) error {
	lines := []string{fmt.Sprintf("%s against %s:", m.Name, first.Name)}
	if r := m.SameAttainment; r == nil {
		lines = append(lines, "  as few late ones: not with as few GPU-hours")
	} else {
		lines = append(lines, fmt.Sprintf("  as few late ones: %.2f GPU-hours instead of %.2f, %.0f %% fewer (%d late instead of %d; %s)", r.GPUHours, first.GPUHours, 100*m.Saved, r.Late, first.Late, r.Name))
	}
	if r := m.SameHours; r == nil {
		lines = append(lines, "  as few GPU-hours: not with as few late ones")
	} else {
		lines = append(lines, fmt.Sprintf("  as few GPU-hours: %d late instead of %d, %.0f %% fewer (%.2f GPU-hours instead of %.2f; %s)", r.Late, first.Late, 100*m.Avoided, r.GPUHours, first.GPUHours, r.Name))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(c.out, line); err != nil {
			return failed(err)
		}
	}
	return nil
}
