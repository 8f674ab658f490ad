package main

import (
	"github.com/spf13/cobra"

	"modeldock.io/internal/app"
)

func (c *cli) agentCommand() *cobra.Command {
	o := app.DefaultAgentOptions()
	var redisAddress, redisFile string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve the cards of one node of a cluster",
		Long: "Says which cards the node has and whether they are healthy, lets the kubelet count their\n" +
			"memory or give claims their card, and publishes the memory in use. Runs once on each node\n" +
			"with cards. Without NVIDIA's driver there are no cards, unless simulated ones are asked for.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return failed(app.Agent(cmd.Context(), o, c.err, func(string) {}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Node, "node", o.Node, "the node's name on the cluster")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "how to reach the cluster (default: as kubectl does, or the Pod's own account)")
	f.StringVar(&o.OpsListen, "ops-listen", o.OpsListen, "address of /healthz, /readyz, /metrics and, for callers on this machine, /debug/pprof")
	f.StringVar(&o.Cards, "cards", o.Cards, `simulated cards instead of real ones: "2x24576", "a100=2x40960"`)
	f.StringVar(&o.CardsFile, "cards-file", o.CardsFile, "simulated cards from a JSON file, which is read again each second")
	f.StringVar(&o.Deliver, "deliver", o.Deliver, "how containers get cards: device-plugin, dra, or none")
	f.StringVar(&o.Resource, "resource", o.Resource, "with device-plugin: the resource that counts memory")
	f.Int64Var(&o.ChunkMiB, "chunk-mib", o.ChunkMiB, "with device-plugin: what one unit of it stands for")
	f.StringVar(&o.KubeletDir, "kubelet-dir", o.KubeletDir, "the kubelet's folder")
	f.StringVar(&o.CDIDir, "cdi-dir", o.CDIDir, "with dra: where the container runtime looks for devices")
	f.StringVar(&o.NVIDIAKind, "nvidia-cdi", o.NVIDIAKind, `with dra: kind under which NVIDIA's toolkit describes the cards by uuid, such as "nvidia.com/gpu"; empty: its runtime reads NVIDIA_VISIBLE_DEVICES`)
	f.StringVar(&redisAddress, "redis", "", "HOST:PORT of the Redis where the memory in use is published; with a password: "+app.RedisVariable)
	f.StringVar(&redisFile, "redis-url-file", "", "file with its whole URL")
	f.BoolVar(&o.Insecure, "insecure", o.Insecure, "allow a listener beyond loopback although there is no TLS")
	return configured(cmd, func() error {
		var errs secretErrors
		o.RedisURL = errs.or(redisURL(redisAddress, redisFile))
		return errs.and(o.Validate())
	})
}
