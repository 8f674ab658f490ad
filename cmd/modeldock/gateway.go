package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"modeldock.io/internal/app"
)

func (c *cli) gatewayCommand() *cobra.Command {
	o := app.DefaultGatewayOptions()
	var tokenFile, redisAddress, redisFile string
	var accessLog bool
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve /v1 alone, beside controllers",
		Long: "Serves inference by what controllers tell it: keys, grants and models. Without them it\n" +
			"goes on with what it was told last, also after a restart. The token that it shares with\n" +
			"controllers is in " + app.GatewayTokenVariable + " or --gateway-token-file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accessLog {
				o.AccessLog = c.out
			}
			return failed(app.Gateway(cmd.Context(), o, c.err, func(string) {}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", o.Listen, "address of /v1")
	f.StringVar(&o.OpsListen, "ops-listen", o.OpsListen, "address of /healthz, /readyz, /metrics and of what controllers ask")
	f.StringSliceVar(&o.Control, "control", nil, "URLs of controllers' --gateway-listen, tried in turn")
	f.StringVar(&tokenFile, "gateway-token-file", "", "file with the token that gateways and controllers share")
	f.StringVar(&o.StateDir, "state-dir", o.StateDir, "where the last snapshot is kept")
	f.StringVar(&o.Endpoints.Machine, "machine", "", "data directory of the modeldock up that runs the models")
	clusterFlags(f, &o.Endpoints.Cluster)
	o.Endpoints.Cluster.System = app.DefaultSystemNamespace // gateways keep nothing there
	countFlags(f, &o.Counts, &redisAddress, &redisFile)
	f.BoolVar(&o.Insecure, "insecure", o.Insecure, "allow listeners beyond loopback although there is no TLS")
	tlsFlags(f, &o.TLS)
	connectionFlags(f, &o.Connections, &o.Proxies)
	bodyFlag(f, &o.BodyMiB)
	f.BoolVar(&accessLog, "access-log", false, "write one line of JSON to standard output for each request to /v1")
	f.DurationVar(&o.StopGrace, "stop-grace", o.StopGrace, "how long running streams may go on at shutdown")
	return configured(cmd, func() error {
		var errs secretErrors
		o.Token = errs.or(secret(tokenFile, "--gateway-token-file", app.GatewayTokenVariable))
		o.Counts.RedisURL = errs.or(redisURL(redisAddress, redisFile))
		return errs.and(o.Validate())
	})
}

func tlsFlags(f *pflag.FlagSet, files *app.CertificateFiles) {
	f.StringVar(&files.Certificate, "tls-cert", "", "PEM file with the certificate of --listen and its chain; read again when it changes")
	f.StringVar(&files.Key, "tls-key", "", "PEM file with its key")
}

func connectionFlags(f *pflag.FlagSet, most *int, proxies *[]string) {
	f.IntVar(most, "max-connections", *most, "most callers that may be connected to --listen at once; where there are as many, those without a request go first, and then one more is turned away")
	f.StringSliceVar(proxies, "proxies", nil, "addresses or networks of proxies in front, which may have all of these connections; another address may have a quarter")
}

func bodyFlag(f *pflag.FlagSet, mib *int) {
	f.IntVar(mib, "max-body-memory", *mib, "MiB of memory for the bodies of requests to models that are read, wait or are being sent; one tenant gets no more than it leaves free")
}

func clusterFlags(f *pflag.FlagSet, cluster *app.Cluster) {
	f.BoolVar(&cluster.Enabled, "kubernetes", cluster.Enabled, "the models run on a Kubernetes cluster")
	f.StringVar(&cluster.Kubeconfig, "kubeconfig", cluster.Kubeconfig, "with --kubernetes: how to reach it (default: as kubectl does, or the Pod's own account)")
	f.StringVar(&cluster.Namespace, "namespace", app.DefaultNamespace, "with --kubernetes: namespace of the ModelServices")
}

// secretErrors gather what is wrong with secrets, to be told with all the rest.
type secretErrors []error

// or passes a secret on and keeps the error.
func (e *secretErrors) or(text string, err error) string {
	if err != nil {
		*e = append(*e, err)
	}
	return text
}

func (e *secretErrors) and(err error) error { return errors.Join(append(*e, err)...) }

// secret reads what is never a flag: from the file, else from the environment.
func secret(file, flag, variable string) (string, error) {
	if file == "" {
		return os.Getenv(variable), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", flag, err)
	}
	return strings.TrimSpace(string(text)), nil
}
