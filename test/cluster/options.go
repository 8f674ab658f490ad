package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"modeldock.io/test/cluster/binaries"
)

// Options say what the cluster consists of. The zero value is one real node.
type Options struct {
	// Dir holds everything: kubeconfig, logs, data. What an earlier cluster left
	// there is removed. Default: a new temporary folder, which Stop removes.
	Dir string
	// Nodes is the number of real nodes (default 1, at most 4). They need root.
	Nodes int
	// ControlPlaneOnly leaves real nodes out, and with them the need for root.
	ControlPlaneOnly bool
	// Simulated is the number of simulated nodes to begin with; see AddSimulatedNodes.
	Simulated int
	// AuditLog makes the API server write down every request; see Audit.
	AuditLog bool
	// FastAutoscaling lets HorizontalPodAutoscalers act within seconds.
	FastAutoscaling bool
	// ClientQPS limits the requests per second of controller-manager and
	// scheduler (default 500; stock Kubernetes has 20 and 50).
	ClientQPS int
	// ExtraArgs are appended to the arguments of the named components; "kubelet"
	// means that of every real node.
	ExtraArgs map[string][]string
	// Cache is where programs are looked for that are not installed; default binaries.CacheDir.
	Cache string
	// Log says what is being done (default: nothing).
	Log *slog.Logger
}

func (o *Options) complete() error {
	if o.Nodes == 0 && !o.ControlPlaneOnly {
		o.Nodes = 1
	}
	if o.ControlPlaneOnly {
		o.Nodes = 0
	}
	if o.Nodes < 0 || o.Nodes > maxNodes {
		return fmt.Errorf("start a cluster of %d real nodes: at most %d fit its bridge", o.Nodes, maxNodes)
	}
	if o.Nodes > 0 && os.Getuid() != 0 {
		return errors.New("start real nodes: they need root (mounts, control groups, a network bridge); without it, start the control plane alone")
	}
	if o.ClientQPS == 0 {
		o.ClientQPS = 500
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Cache != "" {
		return nil
	}
	var err error
	o.Cache, err = binaries.CacheDir()
	return err
}
