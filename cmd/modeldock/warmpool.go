package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

// warmFlags are what `warmpool set` was given.
type warmFlags struct {
	file, zone string
	hours      float64
	hot        []string
	none       bool
}

func (c *cli) warmPoolCommand() *cobra.Command {
	var f warmFlags
	set := &cobra.Command{
		Use: "set POOL [--file FILE | --gpu-hours N --hot CLASS=N] [--none]", Short: "Replace what a pool keeps ready (admin)", Args: cobra.ExactArgs(1),
		Long: "Replaces what a pool keeps ready: from a file with all of it (schedules and buffers too), or from the flags. --none keeps nothing.",
		Example: `  modeldock warmpool set default --gpu-hours 24 --hot llm=2 --hot vision=1
  modeldock warmpool set default --file warm.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.warmPoolSet(cmd, args[0], f) },
	}
	flags := set.Flags()
	flags.StringVar(&f.file, "file", "", "YAML or JSON file with all settings")
	flags.Float64Var(&f.hours, "gpu-hours", 0, "card hours that a day may cost")
	flags.StringVar(&f.zone, "time-zone", "", "IANA name of the time zone of days (default UTC)")
	flags.StringArrayVar(&f.hot, "hot", nil, "CLASS=N: so many models of the class that may sleep keep a replica; the first class is served first")
	flags.BoolVar(&f.none, "none", false, "keep nothing")
	for _, flag := range []string{"gpu-hours", "time-zone", "hot"} {
		set.MarkFlagsMutuallyExclusive("file", flag)
		set.MarkFlagsMutuallyExclusive("none", flag)
	}
	set.MarkFlagsMutuallyExclusive("none", "file")
	set.MarkFlagsOneRequired("file", "gpu-hours", "none")
	cmd := group("warmpool", "What a pool keeps ready for models that nobody calls")
	cmd.AddCommand(
		&cobra.Command{Use: "get [POOL]", Short: "Show what is kept ready, what it cost today and what it buys", Args: cobra.MaximumNArgs(1), RunE: c.warmPoolGet},
		set,
	)
	return cmd
}

func (c *cli) warmPoolGet(cmd *cobra.Command, args []string) error {
	list, err := c.warmPools(cmd.Context())
	if err != nil {
		return err
	}
	if len(args) == 1 {
		list.Items = keep(list.Items, func(p openapi.WarmPool) bool { return p.Pool == args[0] })
		if len(list.Items) == 0 {
			return &exitError{exitNotFound, fmt.Errorf("pool %s keeps nothing ready", args[0])}
		}
	}
	return c.printWarm(*list, list.Items)
}

func (c *cli) warmPools(ctx context.Context) (*openapi.WarmPoolList, error) {
	conn, err := c.connect(true)
	if err != nil {
		return nil, err
	}
	return document200(conn.api.ListWarmPoolsWithResponse(ctx))
}

func (c *cli) warmPoolSet(cmd *cobra.Command, pool string, f warmFlags) error {
	settings, err := f.settings()
	if err != nil {
		return err
	}
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.PutWarmPoolWithResponse(cmd.Context(), pool, *settings))
	if err != nil {
		return err
	}
	return c.printWarm(*doc, []openapi.WarmPool{*doc})
}

func (f warmFlags) settings() (*openapi.WarmPoolSettings, error) {
	if f.file != "" {
		return documentFile[openapi.WarmPoolSettings](f.file, "warm pool")
	}
	out := &openapi.WarmPoolSettings{GpuHoursPerDay: &f.hours, TimeZone: opt(f.zone)}
	var classes []openapi.WarmClass
	for _, text := range f.hot {
		class, count, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, usage("--hot must be like llm=2; got %q", text)
		}
		classes = append(classes, openapi.WarmClass{Class: openapi.WarmClassClass(class), Hot: &n})
	}
	if len(classes) > 0 {
		out.Classes = &classes
	}
	return out, nil
}

// printWarm prints the document, or as a table a line per class.
func (c *cli) printWarm(doc any, pools []openapi.WarmPool) error {
	t := table{head: []string{"POOL", "CLASS", "HOT", "BUFFERS", "SPENT TODAY", "HOT/WARM/COLD", "P99 WAIT", "NOT KEPT BECAUSE"}}
	var names []string
	for _, p := range pools {
		names = append(names, p.Pool)
		hours := 0.0
		if h := p.Settings.GpuHoursPerDay; h != nil {
			hours = *h
		}
		spent := fmt.Sprintf("%.2f of %g GPU-hours", p.SpentToday, hours)
		found, wait := fmt.Sprintf("%d/%d/%d", p.Activations.Hot, p.Activations.Warm, p.Activations.Cold), ""
		if p.P99ActivationSeconds != nil {
			wait = fmt.Sprintf("%.1f s", *p.P99ActivationSeconds)
		}
		for i, s := range p.Classes {
			why := ""
			if s.Why != nil {
				why = *s.Why
			}
			if i > 0 {
				spent, found, wait = "", "", ""
			}
			t.add(p.Pool, string(s.Class), warmCount(s.Hot), warmCount(s.Buffers), spent, found, wait, why)
		}
		if len(p.Classes) == 0 {
			t.add(p.Pool, "", "", "", spent, found, wait, "")
		}
	}
	if err := c.print(doc, names, t); err != nil || c.opts.output != "" && c.opts.output != "table" {
		return err
	}
	for _, p := range pools {
		if g := p.WhatTheNextHourBuys; g != nil {
			_, _ = fmt.Fprintf(c.out, "\n%s: %s\n", p.Pool, plain(g.Message))
		}
	}
	return nil
}

func warmCount(n openapi.WarmCount) string {
	text := fmt.Sprintf("%d of %d", n.Kept, n.Wanted)
	if n.Ready != nil && n.Wanted > 0 {
		text += fmt.Sprintf(", %d ready", *n.Ready)
	}
	return text
}
