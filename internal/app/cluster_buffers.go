package app

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery/operator"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/kube"
)

// newBuffers is what keeps room for warm pools on a cluster; nil where cards
// come by claims, for whose sake no Pod is displaced, or where nobody may.
func newBuffers(c Cluster, cfg *rest.Config, gpu GPUOptions, ledger string, log *slog.Logger) (*operator.Buffers, error) {
	if gpu.Deliver != deliverDevicePlugin || gpu.BufferImage == "" {
		return nil, nil //nolint:nilnil // no room is kept
	}
	client, err := kube.NewClient(cfg, "modeldock-buffers")
	if err != nil {
		return nil, err
	}
	return operator.NewBuffers(operator.BufferOptions{
		Client: client, Namespace: c.Namespace, Ledger: ledger, Image: gpu.BufferImage, PriorityClass: gpu.BufferPriorityClass, GPU: gpu.operator(), Logger: log,
	})
}

// equip gives a scaler the cards of the cluster, and what keeps room on it.
func (w *clusterWorld) equip(cfg *scaler.Config) {
	if w.cards != nil {
		cfg.Cards = w.cards.scalerCards
	}
	if w.buffers == nil {
		return
	}
	cfg.Buffers = func(ctx context.Context, want []scaler.Buffer) ([]int, error) {
		all := make([]operator.Buffer, 0, len(want))
		for _, b := range want {
			all = append(all, operator.Buffer{
				Pool: b.Pool, Class: string(b.Class), Count: b.Count, GPU: v1alpha1.GPU{MemoryMiB: b.GPUMemory, Count: int32(b.GPUs)}, //nolint:gosec // modelspec bounds both
			})
		}
		return w.buffers.Keep(ctx, all)
	}
}
