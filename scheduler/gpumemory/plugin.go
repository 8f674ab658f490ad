// Package gpumemory is the plugin GPUMemoryScheduler of kube-scheduler (account
// 2): it places Pods on cards by the memory that each card has left, with the
// arithmetic of internal/placement.
//
// The truth is in the API server: a Pod's node and the decision annotations
// that one Binding wrote together. What the plugin keeps in memory are cards of
// Pods whose Binding is under way or was answered ambiguously; everything else
// is computed from the NodeInfo that the framework hands over, so that
// preemption can ask about a node without its victims. The framework starts
// scheduling only after all Pods and nodes were listed, so a restarted
// scheduler places nothing on half a view.
package gpumemory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
)

// Name of the plugin in a scheduler's configuration.
const Name = "GPUMemoryScheduler"

// Annotations of a Pod that say what was decided; several cards are separated
// by commas, in the same order in all.
const (
	CardAnnotation  = "scheduler.ai/gpu-device-uuid"
	IndexAnnotation = "scheduler.ai/gpu-index"
	FreeAnnotation  = "scheduler.ai/gpu-free-mb" // before the decision: evidence, nothing counts by it
)

// Measured is the latest view of what cards really use. It answers from memory;
// its version rises with every change of a node's samples, which are by uuid
// and never changed after they were handed out.
type Measured interface {
	Node(name string) (samples map[string]placement.Sample, version uint64)
}

// Plugin implements the extension points. One scheduler process has one.
type Plugin struct {
	handle   fwk.Handle
	reserve  placement.Reserve
	measured Measured // nil: accounts alone
	now      func() time.Time
	ledger   *ledger
	views    *views

	mu     sync.Mutex // guards recent
	recent placement.Recent
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New is the plugin's factory.
func New(ctx context.Context, raw runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := argsOf(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	p := newPlugin(handle, nil, time.Now)
	if args.Redis != "" {
		if err := p.measure(ctx, args.Redis, legacyregistry.Registerer()); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
	}
	if err := p.follow(ctx); err != nil {
		return nil, fmt.Errorf("%s: follow Pods: %w", Name, err)
	}
	if err := p.register(); err != nil {
		return nil, fmt.Errorf("%s: register metrics: %w", Name, err)
	}
	return p, nil
}

func newPlugin(handle fwk.Handle, measured Measured, now func() time.Time) *Plugin {
	p := &Plugin{handle: handle, reserve: placement.DefaultReserve(), measured: measured, now: now, ledger: newLedger(now)}
	p.views = newViews(p)
	return p
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }
