package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// cliReference is made from the code: MODELDOCK_WRITE_DOCS=1 go test
// -run Reference ./cmd/modeldock
const cliReference = "../../docs/cli.md"

// reference writes every command with its flags, and for processes the
// variables that stand for them.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line and settings\n\n<!-- Made from the code by `make reference`; a test compares them. -->\n\n" +
		"[reference.md](reference.md) says how exit codes, keys and contexts work, and what the settings mean together.\n\n## Every command has\n\n")
	flagTable(&b, root.PersistentFlags(), nil)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() || c.Name() == "help" {
				continue
			}
			if c.Runnable() && !c.HasSubCommands() {
				section(&b, c)
			}
			walk(c)
		}
	}
	walk(root)
	return b.String()
}

func section(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n`%s`\n\n%s.\n", c.CommandPath(), strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			own.AddFlag(f)
		}
	})
	if strings.HasPrefix(c.CommandPath(), "modeldock config print") {
		fmt.Fprintf(b, "\nIt takes the flags of `modeldock %s`.\n", c.Name())
		return
	}
	if !own.HasFlags() {
		return
	}
	b.WriteString("\n")
	if own.Lookup(configFlag) == nil {
		flagTable(b, own, nil)
		return
	}
	flagTable(b, own, c)
}

// flagTable has a column of variables where the flags are a process's settings.
func flagTable(b *strings.Builder, flags *pflag.FlagSet, process *cobra.Command) {
	host, _ := os.Hostname()
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	if process != nil {
		b.WriteString("| flag | variable | default | meaning |\n|---|---|---|---|\n")
	} else {
		b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	}
	flags.VisitAll(func(f *pflag.Flag) {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		switch {
		case f.DefValue == host:
			value = "the host's name"
		case f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false":
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | ", name)
		switch {
		case process != nil && f.Name != configFlag:
			fmt.Fprintf(b, "`%s` | ", variableOf(process.Name(), f.Name))
		case process != nil:
			fmt.Fprintf(b, "`%s` | ", configVariable)
		}
		fmt.Fprintf(b, "%s | %s |\n", cell(value), cell(f.Usage))
	})
}

// Every command and every setting is documented, as it is in the code.
func TestCommandReferenceIsTrue(t *testing.T) {
	t.Parallel()
	want := reference((&cli{}).root())
	if n := strings.Count(want, "\n## "); n < 40 || !strings.Contains(want, "`MODELDOCK_UP_MAX_WAITING`") {
		t.Fatalf("only %d commands are documented", n)
	}
	if os.Getenv("MODELDOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(cliReference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(cliReference)
	if err != nil || string(have) != want {
		t.Errorf("docs/cli.md is not what the code says (%v): run make reference", err)
	}
}
