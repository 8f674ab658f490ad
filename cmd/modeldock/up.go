package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"modeldock.io/internal/app"
	"modeldock.io/internal/budget"
)

func (c *cli) upCommand() *cobra.Command {
	o := app.DefaultUpOptions()
	var dsnFile, redisAddress, redisFile string
	var accessLog bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the whole platform on this machine",
		Long: "Runs ledger, delivery, gateway and console in one process, with models as child\n" +
			"processes. An empty data directory starts with pool \"default\" (cap 8), tenants\n" +
			"team-a and team-b (cap 2 each) and keys in DATA-DIR/keys.json.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := app.DefaultExecutable()
			if err != nil {
				return failed(err)
			}
			o.Executable, o.Version = exe, version
			if accessLog {
				o.AccessLog = c.out
			}
			return failed(app.Up(cmd.Context(), o, c.err, c.remember))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", o.Listen, "address of the one listener")
	f.StringVar(&o.OpsListen, "ops-listen", "", "address of /healthz, /readyz, /metrics and, for callers on this machine, /debug/pprof; the main listener then has no metrics")
	f.StringVar(&o.DataDir, "data-dir", o.DataDir, "where ledger, objects, logs and keys are kept")
	f.StringVar(&o.Store, "store", o.Store, "ledger: sqlite, json:FILE, or mysql (MySQL or MariaDB, named by "+app.DSNVariable+" or --mysql-dsn-file)")
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.BoolVar(&o.MoveHere, "move-here", o.MoveHere, "with --store mysql: run the database's models from this data directory, although they ran with another one")
	f.StringVar(&o.Cards, "cards", o.Cards, "simulate these cards, for example 2x24576 or 24576,16384 (default: NVIDIA cards if there are any, else 2x24576)")
	f.BoolVar(&o.Manual, "manual", o.Manual, "let the loops stand still; modeldock step runs them one round at a time")
	f.BoolVar(&o.NoDemo, "no-demo", o.NoDemo, "start without tenants: pool \"default\" and the admin's key alone")
	tlsFlags(f, &o.TLS)
	connectionFlags(f, &o.Connections, &o.Proxies)
	bodyFlag(f, &o.BodyMiB)
	f.BoolVar(&o.Insecure, "insecure", o.Insecure, "allow a listener beyond loopback although there is no TLS")
	countFlags(f, &o.Counts, &redisAddress, &redisFile)
	f.DurationVar(&o.Scaling.Every, "scale-every", o.Scaling.Every, "pause between two rounds of scaling; a sleeping model's first call waits for none")
	f.DurationVar(&o.Scaling.Residence, "min-residence", o.Scaling.Residence, "how long a model keeps its card before it may be asked to make room for another")
	f.Int64Var(&o.AsleepMiB, "asleep-memory", o.AsleepMiB, "MiB of host memory that sleeping engines may take (scaling.asleep); -1: a quarter of the machine's, 0: none sleeps")
	boundFlags(f, &o.Bounds)
	f.DurationVar(&o.HeadWait, "head-wait", o.HeadWait, "how long a blocked request lets smaller ones pass")
	f.BoolVar(&accessLog, "access-log", false, "write one line of JSON to standard output for each request to /v1")
	f.DurationVar(&o.StopGrace, "stop-grace", o.StopGrace, "how long running streams may go on at release and shutdown")
	return configured(cmd, func() error {
		var errs secretErrors
		if dsnFile != "" && o.Store != "mysql" {
			errs = append(errs, fmt.Errorf("--mysql-dsn-file goes with --store mysql; the store is %q", o.Store))
		}
		o.MySQLDSN = errs.or(secret(dsnFile, "--mysql-dsn-file", app.DSNVariable))
		o.Counts.RedisURL = errs.or(redisURL(redisAddress, redisFile))
		return errs.and(o.Validate())
	})
}

// countFlags say where a gateway counts its callers' use.
func countFlags(f *pflag.FlagSet, o *app.CountOptions, address, file *string) {
	f.StringVar(address, "redis", "", "HOST:PORT of a Redis that gateways share for limits and cached answers (default: "+app.RedisVariable+", else in this process)")
	f.StringVar(file, "redis-url-file", "", "file with redis://USER:PASSWORD@HOST:PORT/0, for a Redis with a password")
	f.IntVar(&o.Gateways, "gateways", o.Gateways, "gateways that share this Redis: while it is away, each holds callers to its share of their limits")
	f.IntVar(&o.CacheMiB, "cache-mib", o.CacheMiB, "cached answers kept in memory where there is no Redis")
}

// boundFlags say how much of the ledger one tenant may fill.
func boundFlags(f *pflag.FlagSet, o *budget.Bounds) {
	f.Int64Var(&o.Waiting, "max-waiting", o.Waiting, "most requests of one tenant that may wait")
	f.Int64Var(&o.Requests, "max-requests", o.Requests, "most requests of one tenant that are stored, those that ended included")
	f.Int64Var(&o.Grants, "max-grants", o.Grants, "most grants of one tenant")
}

// redisURL finds the Redis that is shared, if there is one: the flag carries
// no secret, the file and the environment may.
func redisURL(address, file string) (string, error) {
	if address != "" {
		if file != "" {
			return "", errors.New("name Redis by --redis or by --redis-url-file, not by both")
		}
		return app.RedisAddress(address)
	}
	return secret(file, "--redis-url-file", app.RedisVariable)
}

// remember saves a context for the started platform, so that the next
// command just works. Not being able to is no reason not to run.
func (c *cli) remember(r app.Running) {
	keys, err := filepath.Abs(r.KeysFile)
	ctx := savedContext{URL: r.URL, KeyFile: keys}
	if r.Demo {
		ctx.Tenant = "team-a"
	}
	if err == nil {
		err = saveContext("local", ctx)
	}
	if err != nil {
		c.warn("the context for later commands was not saved: %v", err)
	}
}
