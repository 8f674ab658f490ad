// Command licences lists everything of others that our programs and the console
// are made of, each with its licence, and fails if one is not allowed:
//
//	go run ./deploy/licences [--out licences.csv]
//
// Run it in the repository's root.
package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	out := flag.String("out", "", "file of the list; default: standard output")
	flag.Parse()
	if err := run(".", *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root, out string) (err error) {
	parts, err := all(context.Background(), root, "scheduler")
	if err != nil {
		return err
	}
	var to io.Writer = os.Stdout
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, f.Close()) }()
		to = f
	}
	if err := write(to, parts); err != nil {
		return err
	}
	return judge(parts)
}

// all are the parts of every program, once each; modules are folders of ours
// with programs of their own.
func all(ctx context.Context, root string, modules ...string) (parts []part, err error) {
	for _, folder := range append([]string{""}, modules...) {
		more, err := goParts(ctx, filepath.Join(root, folder), "./cmd/...")
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	bundled, err := npmParts(root + "/console/package-lock.json")
	if err != nil {
		return nil, err
	}
	parts = append(parts, bundled...)
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version))
	})
	return slices.CompactFunc(parts, func(a, b part) bool { return a.kind == b.kind && a.name == b.name && a.version == b.version }), nil
}

func write(to io.Writer, parts []part) error {
	w := csv.NewWriter(to)
	rows := [][]string{{"kind", "name", "version", "licence"}}
	for _, p := range parts {
		rows = append(rows, []string{p.kind, p.name, p.version, strings.Join(p.licences, " AND ")})
	}
	if err := w.WriteAll(rows); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}

// judge names everything that may not be given away with ours.
func judge(parts []part) error {
	var bad []string
	for _, p := range parts {
		if why := p.refused(); why != "" {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", p.kind, p.name, p.version, why))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d parts may not be used; take another one, or allow the licence in deploy/licences after reading it:\n  %s", len(bad), len(parts), strings.Join(bad, "\n  "))
	}
	return nil
}
