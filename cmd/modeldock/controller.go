package main

import (
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
)

func (c *cli) controllerCommand() *cobra.Command {
	o := app.DefaultControllerOptions()
	var dsnFile, tokenFile, redisAddress, redisFile string
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the control plane beside others on one MySQL or MariaDB database",
		Long: "Runs the management API, admission, delivery and operator, or some of them. The models run\n" +
			"with the `modeldock up --store mysql` of this machine (--machine), or on a cluster\n" +
			"(--kubernetes). Any number may run; each may be killed at any moment. The database is\n" +
			"named by " + app.DSNVariable + " or --mysql-dsn-file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return failed(app.Controller(cmd.Context(), o, c.err, func(string) {}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", o.Listen, "address of the one listener")
	f.StringVar(&o.OpsListen, "ops-listen", "", "address of /healthz, /readyz, /metrics and, for callers on this machine, /debug/pprof")
	f.StringVar(&o.MetricsAPIListen, "metrics-api-listen", "", "with --kubernetes: address of custom.metrics.k8s.io for autoscalers, over TLS; see deploy/examples")
	f.StringVar(&o.Machine, "machine", o.Machine, "data directory of the modeldock up that runs the models on this machine")
	clusterFlags(f, &o.Cluster)
	f.StringVar(&o.Cluster.System, "system-namespace", o.Cluster.System, "with --kubernetes: namespace of the controllers' Lease and of the ledger's stamp")
	f.StringVar(&o.Image, "image", o.Image, "with --kubernetes: image of the simulated engine")
	f.DurationVar(&o.Drain.Delay, "drain-delay", o.Drain.Delay, "with --kubernetes: how long a replica that ends still serves, until every gateway has heard")
	f.DurationVar(&o.Drain.LongestStream, "longest-stream", o.Drain.LongestStream, "with --kubernetes: how long its running streams may take to finish then")
	f.StringVar(&o.GPU.Deliver, "gpu", o.GPU.Deliver, "with --kubernetes: how Pods get cards: device-plugin or dra, as the agents' --deliver says, or none")
	f.StringVar(&o.GPU.Scheduler, "gpu-scheduler", o.GPU.Scheduler, "with --gpu: name of the scheduler of Pods that ask for cards; empty: the cluster's default")
	f.Int64Var(&o.GPU.ChunkMiB, "gpu-chunk-mib", o.GPU.ChunkMiB, "with --gpu: what one unit of the agents' resource stands for")
	f.StringVar(&o.GPU.BufferImage, "buffer-image", o.GPU.BufferImage, "with --gpu device-plugin: image of Pods that keep room for the replicas of warm pools; empty: none do")
	f.StringVar(&o.GPU.BufferPriorityClass, "buffer-priority-class", o.GPU.BufferPriorityClass, "with --gpu device-plugin: their PriorityClass, below that of all other Pods")
	f.StringVar(&redisAddress, "redis", "", "with --gpu: HOST:PORT of the Redis where agents publish the memory in use, to be shown; with a password: "+app.RedisVariable)
	f.StringVar(&redisFile, "redis-url-file", "", "with --gpu: file with its whole URL")
	f.StringVar(&o.Gateways.Listen, "gateway-listen", "", "address where gateways ask for what they decide by")
	f.StringVar(&tokenFile, "gateway-token-file", "", "file with the token that gateways and controllers share (default: "+app.GatewayTokenVariable+")")
	f.StringVar(&o.Gateways.URL, "gateway", "", "URL of a gateway, to which calls of signed-in console users are forwarded")
	f.StringVar(&o.Gateways.CAFile, "gateway-ca", "", "PEM file with who signs the gateway's certificate, beside whom the system trusts")
	f.StringSliceVar(&o.Gateways.Ops, "gateway-ops", nil, "URLs of gateways' --ops-listen, to be asked what they see")
	f.StringVar(&dsnFile, "mysql-dsn-file", "", "file with user:password@tcp(host:port)/database")
	f.StringSliceVar(&o.Parts, "parts", o.Parts, "what to run, of "+strings.Join(app.ControllerParts(), ", "))
	tlsFlags(f, &o.TLS)
	connectionFlags(f, &o.Connections, &o.Proxies)
	f.BoolVar(&o.Insecure, "insecure", o.Insecure, "allow a listener beyond loopback although there is no TLS")
	boundFlags(f, &o.Bounds)
	f.DurationVar(&o.HeadWait, "head-wait", o.HeadWait, "how long a blocked request lets smaller ones pass")
	f.DurationVar(&o.ReconcileEvery, "reconcile-every", o.ReconcileEvery, "how often ledger and objects are compared, and on a cluster objects and their children")
	f.DurationVar(&o.Scaling.Residence, "min-residence", o.Scaling.Residence, "with --gpu: how long a model keeps its card before it may be asked to make room for another")
	f.DurationVar(&o.Scaling.Every, "scale-every", o.Scaling.Every, "with --kubernetes: pause between two rounds of scaling; a sleeping model's first call waits for none")
	f.DurationVar(&o.StopGrace, "stop-grace", o.StopGrace, "how long running requests may go on at shutdown")
	return configured(cmd, func() error {
		var errs secretErrors
		o.MySQLDSN = errs.or(secret(dsnFile, "--mysql-dsn-file", app.DSNVariable))
		o.Gateways.Token = errs.or(secret(tokenFile, "--gateway-token-file", app.GatewayTokenVariable))
		if o.GPU.Cards() {
			o.GPU.RedisURL = errs.or(redisURL(redisAddress, redisFile))
		}
		return errs.and(o.Validate())
	})
}
