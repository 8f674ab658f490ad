package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

// limitFlags are what `limits set` was given; only those that were change.
type limitFlags struct {
	rates, perKey rateFlags
	window        int64
	maxPriority   int
	maxClass      string
	clear         bool
}

type rateFlags struct{ requests, tokens, concurrency, day int64 }

func (c *cli) limitsCommand() *cobra.Command {
	var f limitFlags
	set := &cobra.Command{
		Use: "set TENANT", Short: "Change what a tenant's callers may use (admin)", Args: cobra.ExactArgs(1),
		Long: "Changes the limits that are named and leaves the others. 0 (for --max-priority -1, for --max-class none) takes a limit away, --clear all of them first.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.limitsSet(cmd, args[0], f) },
	}
	flags := set.Flags()
	for _, r := range []struct {
		prefix, of string
		into       *rateFlags
	}{{"", "of all keys together", &f.rates}, {"key-", "of each key", &f.perKey}} {
		flags.Int64Var(&r.into.requests, r.prefix+"requests-per-minute", 0, "requests per minute "+r.of)
		flags.Int64Var(&r.into.tokens, r.prefix+"tokens-per-minute", 0, "tokens per minute "+r.of)
		flags.Int64Var(&r.into.concurrency, r.prefix+"concurrency", 0, "requests at once "+r.of)
		flags.Int64Var(&r.into.day, r.prefix+"tokens-per-day", 0, "tokens per UTC day "+r.of)
	}
	flags.Int64Var(&f.window, "window-seconds", 0, "let no more than this many seconds' share of a minute come at once (default 60)")
	flags.IntVar(&f.maxPriority, "max-priority", -1, "highest priority that the tenant may submit with")
	flags.StringVar(&f.maxClass, "max-class", "none", "highest class of its callers who wait: interactive, default or batch")
	flags.BoolVar(&f.clear, "clear", false, "begin with no limits")
	cmd := group("limits", "What a tenant's callers may use of the gateways")
	cmd.AddCommand(
		&cobra.Command{Use: "get [TENANT]", Short: "Show limits", Args: cobra.MaximumNArgs(1), RunE: c.limitsGet},
		set,
	)
	return cmd
}

func (c *cli) limitsGet(cmd *cobra.Command, args []string) error {
	list, err := c.tenants(cmd.Context(), args)
	if err != nil {
		return err
	}
	names, t := limitsTable(list.Items)
	return c.print(*list, names, t)
}

func (c *cli) limitsSet(cmd *cobra.Command, tenant string, f limitFlags) error {
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	var limits openapi.Limits
	if !f.clear {
		list, err := document200(conn.api.ListTenantsWithResponse(cmd.Context()))
		if err != nil {
			return err
		}
		for _, t := range list.Items {
			if t.Tenant == tenant {
				limits = t.Limits
			}
		}
	}
	f.apply(&limits, cmd.Flags().Changed)
	doc, err := document200(conn.api.PutLimitsWithResponse(cmd.Context(), tenant, limits))
	if err != nil {
		return err
	}
	names, t := limitsTable([]openapi.Tenant{*doc})
	return c.print(*doc, names, t)
}

// apply writes the flags that were given over what is there.
func (f limitFlags) apply(l *openapi.Limits, given func(flag string) bool) {
	f.rates.apply("", given, &l.RequestsPerMinute, &l.TokensPerMinute, &l.Concurrency, &l.TokensPerDay)
	var each openapi.Rates
	if l.PerKey != nil {
		each = *l.PerKey
	}
	f.perKey.apply("key-", given, &each.RequestsPerMinute, &each.TokensPerMinute, &each.Concurrency, &each.TokensPerDay)
	if l.PerKey = &each; each == (openapi.Rates{}) {
		l.PerKey = nil
	}
	if given("window-seconds") {
		l.WindowSeconds = unlessZero(f.window)
	}
	if given("max-priority") {
		if l.MaxPriority = &f.maxPriority; f.maxPriority == -1 {
			l.MaxPriority = nil
		}
	}
	if given("max-class") {
		class := openapi.LimitsMaxClass(f.maxClass)
		if l.MaxClass = &class; f.maxClass == "none" {
			l.MaxClass = nil
		}
	}
}

func (r rateFlags) apply(prefix string, given func(flag string) bool, requests, tokens, concurrency, day **int64) {
	for _, f := range []struct {
		flag  string
		value int64
		into  **int64
	}{
		{"requests-per-minute", r.requests, requests}, {"tokens-per-minute", r.tokens, tokens},
		{"concurrency", r.concurrency, concurrency}, {"tokens-per-day", r.day, day},
	} {
		if given(prefix + f.flag) {
			*f.into = unlessZero(f.value)
		}
	}
}

func unlessZero(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func limitsTable(rows []openapi.Tenant) ([]string, table) {
	t := table{head: []string{"TENANT", "REQ/MIN", "TOK/MIN", "AT ONCE", "TOK/DAY", "EACH KEY", "MAX PRIORITY", "MAX CLASS"}}
	var names []string
	for _, row := range rows {
		l := row.Limits
		names = append(names, row.Tenant)
		priority, class, each := "-", "-", "-"
		if l.MaxPriority != nil {
			priority = strconv.Itoa(*l.MaxPriority)
		}
		if l.MaxClass != nil {
			class = string(*l.MaxClass)
		}
		if r := l.PerKey; r != nil {
			each = strings.Join([]string{limited(r.RequestsPerMinute), limited(r.TokensPerMinute), limited(r.Concurrency), limited(r.TokensPerDay)}, " ")
		}
		t.add(row.Tenant, limited(l.RequestsPerMinute), limited(l.TokensPerMinute), limited(l.Concurrency), limited(l.TokensPerDay), each, priority, class)
	}
	return names, t
}

func limited(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
