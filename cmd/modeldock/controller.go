package main

import (
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
)

func (c *cli) controllerCommand() *cobra.Command {
	o := app.DefaultControllerOptions()
	var dsnFile string
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the control plane beside others on one MySQL or MariaDB database",
		Long: "Runs the management API, admission and delivery, or some of them, on the database that\n" +
			"`modeldock up --store mysql` uses on this machine. Any number may run; each may be\n" +
			"killed at any moment. The database is named by " + app.DSNVariable + " or --mysql-dsn-file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.MySQLDSN, err = mysqlDSN(dsnFile); err == nil {
				err = o.Validate()
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			return failed(app.Controller(cmd.Context(), o, c.err, func(string) {}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", o.Listen, "address of the one listener")
	f.StringVar(&o.Machine, "machine", o.Machine, "data directory of the `modeldock up` that runs the models")
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.StringSliceVar(&o.Parts, "parts", o.Parts, "what to run, of "+strings.Join(app.ControllerParts(), ", "))
	f.BoolVar(&o.Insecure, "insecure", o.Insecure, "allow a listener beyond loopback although there is no TLS")
	f.DurationVar(&o.HeadWait, "head-wait", o.HeadWait, "how long a blocked request lets smaller ones pass")
	f.DurationVar(&o.StopGrace, "stop-grace", o.StopGrace, "how long running requests may go on at shutdown")
	return cmd
}
