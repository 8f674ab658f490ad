package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
	"modeldock.io/internal/preflight"
)

func (c *cli) preflightCommand() *cobra.Command {
	o := preflight.Options{Version: version}
	var dsnFile, dataDir, redisAddress, redisFile string
	var onCluster bool
	var cluster preflight.Cluster
	cmd := &cobra.Command{
		Use: "preflight", Short: "Look whether what is there suits this version, before a start or an upgrade", Args: cobra.NoArgs,
		Long: "Looks at the database (" + app.DSNVariable + " or --mysql-dsn-file; or --data-dir of one machine), at Redis\n" +
			"(" + app.RedisVariable + ", --redis or --redis-url-file) and, with --kubernetes, at the API server, the custom\n" +
			"resource, the versions that run and the rights of each process. Names everything at once, with\n" +
			"what to do next, and leaves all as it was. Exits 0 if nothing is in the way, 4 if something\n" +
			"is broken, 3 if something could not be found out.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.DSN, err = secret(dsnFile, "--mysql-dsn-file", app.DSNVariable); err == nil {
				o.RedisURL, err = redisURL(redisAddress, redisFile)
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if dataDir != "" {
				if dsnFile != "" {
					return usage("name one ledger: --mysql-dsn-file, or --data-dir")
				}
				o.DSN, o.File = "", filepath.Join(dataDir, "ledger.db")
			}
			if onCluster {
				o.Cluster = &cluster
			}
			if o.Nothing() {
				return usage("name what to look at: --mysql-dsn-file or --data-dir, --redis, --kubernetes")
			}
			return c.printPreflight(preflight.Run(cmd.Context(), o))
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.StringVar(&dataDir, "data-dir", "", "data directory of a modeldock up, whose ledger is looked at")
	f.StringVar(&redisAddress, "redis", "", "HOST:PORT of the Redis that gateways share")
	f.StringVar(&redisFile, "redis-url-file", "", "file with redis://USER:PASSWORD@HOST:PORT/0")
	f.BoolVar(&onCluster, "kubernetes", false, "look at a Kubernetes cluster, too")
	f.StringVar(&cluster.Kubeconfig, "kubeconfig", "", "with --kubernetes: how to reach it (default: as kubectl does)")
	f.StringVar(&cluster.Namespace, "namespace", app.DefaultNamespace, "with --kubernetes: namespace of the ModelServices")
	f.StringVar(&cluster.System, "system-namespace", app.DefaultSystemNamespace, "with --kubernetes: namespace of the installation")
	f.StringVar(&cluster.Release, "release", "modeldock", "with --kubernetes: Helm's name of the installation")
	f.StringVar(&cluster.Self, "self", "", "with --kubernetes: ask for the caller's own rights to be this process, such as controller")
	f.DurationVar(&o.Wait, "timeout", 20*time.Second, "how long each part may take")
	return cmd
}

// printPreflight shows the report and turns it into an exit code.
func (c *cli) printPreflight(r preflight.Report) error {
	t := table{head: []string{"PART", "CHECK", "STATUS", "FOUND"}}
	var names []string
	for _, f := range r.Findings {
		t.add(f.Part, f.Check, string(f.Status), f.Message)
		if f.Status == preflight.Broken || f.Status == preflight.Unknown {
			names = append(names, f.Part+"/"+f.Check)
		}
	}
	if c.opts.output == "" || c.opts.output == "table" {
		c.writePreflight(r)
	} else if err := c.print(r, names, t); err != nil {
		return err
	}
	switch {
	case r.Has(preflight.Broken):
		return &exitError{exitBroken, nil}
	case r.Has(preflight.Unknown):
		return &exitError{exitPending, nil}
	}
	return nil
}

// writePreflight is for people: nothing is clipped, and what to do stands
// below what was found.
func (c *cli) writePreflight(r preflight.Report) {
	colours := map[preflight.Status]string{preflight.OK: colourOK, preflight.Pending: colourFaint, preflight.Warning: colourPending, preflight.Unknown: colourPending, preflight.Broken: colourBroken}
	for _, f := range r.Findings {
		_, _ = fmt.Fprintf(c.out, "%s  %-8s  %-17s  %s\n", c.paint(colours[f.Status], fmt.Sprintf("%-7s", f.Status)), f.Part, f.Check, plain(f.Message))
		if f.Next != "" {
			_, _ = fmt.Fprintf(c.out, "%38s-> %s\n", "", f.Next)
		}
	}
	verdict := "nothing is in the way"
	switch {
	case r.Has(preflight.Broken):
		verdict = "something is broken: see above"
	case r.Has(preflight.Unknown):
		verdict = "something could not be found out: see above"
	}
	_, _ = fmt.Fprintf(c.out, "modeldock %s: %s\n", r.Version, verdict)
}
