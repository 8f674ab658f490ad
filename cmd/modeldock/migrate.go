package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
)

func (c *cli) migrateCommand() *cobra.Command {
	var dsnFile, dataDir string
	var dry bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring a ledger's schema to this version", Args: cobra.NoArgs,
		Long: "Runs the migrations that a ledger lacks: of the database of " + app.DSNVariable + " or\n" +
			"--mysql-dsn-file, or of a --data-dir whose modeldock up is stopped. One process migrates at a\n" +
			"time, and one that was killed is gone on with. Every process does the same at its start; to\n" +
			"do it beforehand makes that start short. There is no way back but a backup.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := secret(dsnFile, "--mysql-dsn-file", app.DSNVariable)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if dataDir != "" && dsnFile != "" || dataDir == "" && dsn == "" {
				return usage("name one ledger: --mysql-dsn-file, or --data-dir")
			}
			if dataDir != "" {
				dsn = ""
			}
			done, err := app.Migrate(cmd.Context(), dsn, dataDir, dry)
			if err != nil {
				return failed(err)
			}
			t := table{head: []string{"LEDGER", "FROM", "TO", "MIGRATIONS"}}
			t.add(done.Where, fmt.Sprint(done.From), fmt.Sprint(done.To), strings.Join(done.Migrations, ", "))
			return c.print(done, done.Migrations, t)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.StringVar(&dataDir, "data-dir", "", "data directory of a modeldock up")
	f.BoolVar(&dry, "dry-run", false, "only say what would be done")
	return cmd
}
