package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) ledgerCommand() *cobra.Command {
	cmd := group("ledger", "Check, back up and restore the ledger")
	cmd.AddCommand(
		&cobra.Command{Use: "verify", Short: "Recompute every invariant; exit 4 with the offending rows if one is broken (admin)", Args: cobra.NoArgs, RunE: c.ledgerVerify},
		&cobra.Command{Use: "journal ID", Short: "Debits and credits of one request", Args: cobra.ExactArgs(1), RunE: c.ledgerJournal},
		c.ledgerExportCommand(), c.ledgerImportCommand(),
	)
	return cmd
}

func (c *cli) ledgerVerify(cmd *cobra.Command, _ []string) error {
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.VerifyLedgerWithResponse(cmd.Context()))
	if err != nil {
		return err
	}
	rep := *doc
	if rep.Older != nil {
		_, _ = fmt.Fprintln(c.err, plain(*rep.Older))
	}
	if rep.Clean && (c.opts.output == "table" || c.opts.output == "") {
		_, _ = fmt.Fprintf(c.out, "clean: %d tenants, %d pools, %d reservations, %d journal entries\n", rep.Tenants, rep.Pools, rep.Reservations, rep.JournalEntries)
		return nil
	}
	t := table{head: []string{"INVARIANT", "SUBJECT", "MESSAGE"}}
	var names []string
	for _, v := range rep.Violations {
		names = append(names, v.Subject)
		t.add(v.Invariant, v.Subject, v.Message)
	}
	if err := c.print(rep, names, t); err != nil {
		return err
	}
	if !rep.Clean {
		return &exitError{exitBroken, fmt.Errorf("%d invariants are broken", len(rep.Violations))}
	}
	return nil
}

func (c *cli) ledgerJournal(cmd *cobra.Command, args []string) error {
	conn, err := c.connect(false)
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.GetJournalWithResponse(cmd.Context(), args[0], &openapi.GetJournalParams{Tenant: conn.whose()}))
	if err != nil {
		return err
	}
	t := table{head: []string{"REVISION", "OP", "SLOTS", "POOL", "AGE"}}
	var names []string
	for _, e := range doc.Items {
		names = append(names, fmt.Sprint(e.Revision))
		t.add(fmt.Sprint(e.Revision), string(e.Op), fmt.Sprintf("%+d", e.Slots), e.Pool, ageOf(e.At))
	}
	return c.print(*doc, names, t)
}

// version is set by the release build; a plain build says what Go recorded.
var version = "dev"

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": "", "revision": ""}
			if info, ok := debug.ReadBuildInfo(); ok {
				v["go"] = info.GoVersion
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["revision"] = s.Value
					}
				}
			}
			t := table{head: []string{"VERSION", "GO", "REVISION"}}
			t.add(v["version"], v["go"], v["revision"])
			return c.print(v, []string{v["version"]}, t)
		},
	}
}
