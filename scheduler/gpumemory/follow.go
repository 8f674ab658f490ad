package gpumemory

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// resolveAfter is longer than an API server works on one request: a Binding
	// that has had no effect by then will have none.
	resolveAfter = 65 * time.Second
	tidyEvery    = 5 * time.Second
)

// follow hears what becomes of Pods and settles doubts, until ctx ends.
func (p *Plugin) follow(ctx context.Context) error {
	informers := p.handle.SharedInformerFactory()
	_, err := informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { p.shown(ctx, now) },
		UpdateFunc: func(old, now any) {
			p.shown(ctx, now)
			if wentElsewhere(old, now) {
				p.wake(klog.FromContext(ctx))
			}
		},
		DeleteFunc: func(last any) {
			if unseen, ok := last.(cache.DeletedFinalStateUnknown); ok {
				last = unseen.Obj
			}
			if pod, ok := last.(*v1.Pod); ok && p.ledger.bound(pod.UID, "") {
				p.wake(klog.FromContext(ctx))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("add a handler: %w", err)
	}
	if _, err := informers.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(last any) {
			if node, ok := last.(*v1.Node); ok {
				p.views.forget(node.Name)
			}
		},
	}); err != nil {
		return fmt.Errorf("add a handler: %w", err)
	}
	go p.tidy(ctx)
	return nil
}

func (p *Plugin) shown(ctx context.Context, object any) {
	if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" && p.ledger.bound(pod.UID, pod.Spec.NodeName) {
		p.wake(klog.FromContext(ctx))
	}
}

// wentElsewhere tells whether a Pod that a preemption had promised a node was
// bound to another one: others waited for what it did not take, and the
// framework tells nobody (kubernetes/kubernetes#134859).
func wentElsewhere(old, now any) bool {
	before, ok1 := old.(*v1.Pod)
	after, ok2 := now.(*v1.Pod)
	return ok1 && ok2 && asks(after) && before.Spec.NodeName == "" && after.Spec.NodeName != "" &&
		before.Status.NominatedNodeName != "" && before.Status.NominatedNodeName != after.Spec.NodeName
}

func (s *views) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, node)
}

func (p *Plugin) tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.ledger.sweep()
			p.resolve(ctx)
		}
	}
}

// resolve asks about Bindings that were answered ambiguously long enough ago.
func (p *Plugin) resolve(ctx context.Context) {
	freed := false
	for _, h := range p.ledger.inDoubt("") {
		if h.posted || p.now().Sub(h.doubt) < resolveAfter {
			continue
		}
		state, err := p.look(ctx, &h)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "A Binding stays in doubt", "pod", h.name, "node", h.node)
		case state == boundAsDecided:
			// It ends when this process hears of the Pod, as its view of the node does.
		default:
			freed = p.ledger.settle(&h) || freed
		}
	}
	if freed {
		p.wake(klog.FromContext(ctx))
	}
}

// wake retries Pods that wait for cards: what was freed is no event that the
// framework could know of.
func (p *Plugin) wake(logger klog.Logger) {
	pods, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		logger.Error(err, "Pods that wait for cards are not woken")
		return
	}
	waiting := map[string]*v1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && asks(pod) {
			waiting[key(pod).String()] = pod
		}
	}
	p.handle.Activate(logger, waiting)
}
