package main

import (
	"context"
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
	var dsnFile, file, secretName string
	cluster := app.Cluster{Enabled: true}
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
			keep := func(key string) error { return c.keepKey(cmd.Context(), key, file, secretName, cluster) }
			err = app.Bootstrap(cmd.Context(), dsn, poolCap, keep, c.err)
			if errors.Is(err, app.ErrHasKeys) && secretName != "" {
				c.warn("nothing to do: %v", err) // an installation that is made again is no conflict
				return nil
			}
			if errors.Is(err, app.ErrHasKeys) {
				return &exitError{exitConflict, err}
			}
			return failed(err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.Int64Var(&poolCap, "pool-cap", 0, "slots of the pool \"default\", if it is made now")
	f.StringVar(&file, "file", "", "write a keys.json (0600) instead of printing the key")
	f.StringVar(&secretName, "secret", "", "write it into this Secret of a Kubernetes cluster; a ledger with keys is then left as it is")
	f.StringVar(&cluster.Kubeconfig, "kubeconfig", "", "with --secret: how to reach the cluster")
	f.StringVar(&cluster.System, "system-namespace", app.DefaultSystemNamespace, "with --secret: its namespace")
	cmd.MarkFlagsMutuallyExclusive("file", "secret")
	return cmd
}

// keepKey puts the first key where it was asked for.
func (c *cli) keepKey(ctx context.Context, key, file, secretName string, cluster app.Cluster) error {
	text, err := json.MarshalIndent(map[string]string{"admin": key}, "", "  ")
	if err != nil {
		return err
	}
	switch {
	case secretName != "":
		return app.KeepInSecret(ctx, cluster, secretName, append(text, '\n'))
	case file != "":
		return os.WriteFile(file, append(text, '\n'), 0o600)
	}
	_, err = fmt.Fprintln(c.out, string(text))
	return err
}
