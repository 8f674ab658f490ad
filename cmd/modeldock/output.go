package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"modeldock.io/internal/api/wiretime"
)

// table is rows of cells under a head.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// checkOutput refuses what print does not know.
func checkOutput(format string) error {
	switch format {
	case "", "table", "json", "yaml", "name":
		return nil
	default:
		return usage("-o must be table, json, yaml or name; got %q", format)
	}
}

// print writes v as -o asks: the document as JSON or YAML, or the table, or
// the names alone.
func (c *cli) print(v any, names []string, t table) error {
	switch c.opts.output {
	case "json":
		enc := json.NewEncoder(screen(c.out))
		enc.SetIndent("", "  ")
		return failed(enc.Encode(v))
	case "yaml":
		data, err := yaml.Marshal(v)
		if err != nil {
			return failed(fmt.Errorf("encode YAML: %w", err))
		}
		_, err = screen(c.out).Write(data)
		return failed(err)
	case "name":
		for _, n := range names {
			_, _ = fmt.Fprintln(c.out, plain(n))
		}
		return nil
	default:
		return failed(t.write(c.out))
	}
}

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		for i, cell := range row {
			if row[i] = clip(plain(cell)); row[i] == "" {
				row[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// longestCell keeps a message with an engine's last lines from filling the
// screen; explain and -o json show it whole.
const longestCell = 120

func clip(s string) string {
	if r := []rune(s); len(r) > longestCell {
		return string(r[:longestCell-1]) + "…"
	}
	return s
}

// plain keeps text on its line and away from the terminal's controls: messages
// may carry what other people's programs have printed.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if hidden(r) {
			return ' '
		}
		return r
	}, s))
}

func text[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// age tells how long ago t was, in one unit.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(0, time.Since(t))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func ageOf(t wiretime.Time) string { return age(time.Time(t)) }

// Colours, by meaning.
const (
	colourOK      = "32"
	colourPending = "33"
	colourBroken  = "31"
	colourFaint   = "2"
)

// paint colours s on a terminal unless NO_COLOR is set.
func (c *cli) paint(colour, s string) string {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !isTerminal(c.out) {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (c *cli) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, "modeldock: "+format+"\n", args...)
}
