package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// streams are the process's standard files, replaceable in tests.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// cli carries what every verb needs.
type cli struct {
	streams
	opts options
}

// options are the global flags.
type options struct {
	url     string
	keyFile string
	context string
	tenant  string
	output  string
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	s.err = screen(s.err) // what is told there repeats what others said
	c := &cli{streams: s}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: exitUsage, err: err} // cobra's own errors are about usage
	}
	if e.err != nil {
		_, _ = fmt.Fprintln(s.err, "modeldock: "+e.err.Error())
	}
	return e.code
}

// group is a command that only holds others. Without one of them it shows its
// help; cobra alone would do so for a misspelt one too, and call it success.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q for %q: see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "modeldock",
		Short:         "Serve models on shared GPUs under a budget that is never spent twice",
		SilenceErrors: true,
		SilenceUsage:  true,
		// Checked before anything is asked: a submit whose answer cannot be
		// printed should not have happened.
		PersistentPreRunE: func(*cobra.Command, []string) error { return checkOutput(c.opts.output) },
	}
	f := root.PersistentFlags()
	f.StringVar(&c.opts.url, "url", "", "management API (default: MODELDOCK_URL, else the saved context)")
	f.StringVar(&c.opts.keyFile, "key-file", "", "file with a key, or a keys.json (default: MODELDOCK_KEY, else the saved context)")
	f.StringVar(&c.opts.context, "context", "", "saved context to use (default: the current one)")
	f.StringVar(&c.opts.tenant, "tenant", "", "act for this tenant: picks its key from keys.json, or names it to an admin key")
	f.StringVarP(&c.opts.output, "output", "o", "table", "table, json, yaml or name")
	root.AddCommand(
		c.upCommand(), c.controllerCommand(), c.gatewayCommand(), c.agentCommand(), c.submitCommand(), c.getCommand(), c.listCommand(), c.watchCommand(), c.updateCommand(), c.releaseCommand(),
		c.simulateCommand(),
		c.explainCommand(), c.traceCommand(), c.logsCommand(), c.chatCommand(), c.modelsCommand(), c.nodesCommand(), c.topCommand(), c.fitCommand(),
		c.stepCommand(), c.quotaCommand(), c.limitsCommand(), c.poolCommand(), c.warmPoolCommand(), c.keyCommand(), c.grantCommand(), c.auditCommand(), c.ledgerCommand(),
		c.configCommand(), c.preflightCommand(), c.migrateCommand(), c.versionCommand(),
	)
	return root
}
