package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
)

// keyBootstrap works on the database itself: before the first key nobody can
// ask the management API for one.
func (c *cli) keyBootstrap() *cobra.Command {
	var dsnFile, file string
	var poolCap int64
	cmd := &cobra.Command{
		Use: "bootstrap", Short: "Prepare a new MySQL or MariaDB ledger and write its first admin key", Args: cobra.NoArgs,
		Long: "Makes the tables, the pool \"default\" if there is no pool, and one admin key if the database\n" +
			"holds no key; the database is named by " + app.DSNVariable + " or --mysql-dsn-file.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := secret(dsnFile, "--mysql-dsn-file", app.DSNVariable)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if file != "" {
				if _, err := os.Stat(file); err == nil {
					return &exitError{exitConflict, fmt.Errorf("%s is there already: move it away, or choose another --file", file)}
				}
			}
			key, err := app.Bootstrap(cmd.Context(), dsn, poolCap, c.err)
			if errors.Is(err, app.ErrHasKeys) {
				return &exitError{exitConflict, err}
			}
			if err != nil {
				return failed(err)
			}
			text, err := json.MarshalIndent(map[string]string{"admin": key}, "", "  ")
			if err != nil {
				return failed(err)
			}
			if file == "" {
				_, _ = fmt.Fprintln(c.out, string(text))
				return nil
			}
			return failed(os.WriteFile(file, append(text, '\n'), 0o600))
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.Int64Var(&poolCap, "pool-cap", 0, "slots of the pool \"default\", if it is made now")
	f.StringVar(&file, "file", "", "write a keys.json (0600) instead of printing the key")
	return cmd
}
