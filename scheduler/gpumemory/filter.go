package gpumemory

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
)

// fewNodes is up to how many nodes each has its own reason in a Pod's status.
// Beyond that, PostFilter names the one that came closest.
const fewNodes = 8

// fit looks for cards on a node.
func (p *Plugin) fit(w *wanted, pod *v1.Pod, info fwk.NodeInfo) (*placement.View, placement.Choice, bool, error) {
	view, err := p.views.of(info)
	if err != nil {
		return nil, placement.Choice{}, false, err
	}
	if w.doubted {
		if view, err = p.without(view, pod, info); err != nil {
			return nil, placement.Choice{}, false, err
		}
	}
	var few [4]placement.Chosen
	choice, fits := view.Fit(&w.request, w.sizes, few[:0])
	return view, choice, fits, nil
}

// Filter implements fwk.FilterPlugin.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	w, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	view, _, fits, err := p.fit(w, pod, info)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the node's cards cannot be used: "+err.Error())
	}
	if fits {
		return nil
	}
	code := fwk.Unschedulable
	if !couldEver(view, &w.request) {
		code = fwk.UnschedulableAndUnresolvable // evicting others would not help
	}
	return fwk.NewStatus(code, w.reason(view))
}

func (w *wanted) reason(view *placement.View) string {
	if w.nodes <= fewNodes {
		return view.Shortfall(&w.request).String()
	}
	if w.request.Cards > 1 {
		return fmt.Sprintf("fewer than %d cards with %d MiB free each", w.request.Cards, w.request.MiB)
	}
	return fmt.Sprintf("no card with %d MiB free", w.request.MiB)
}

// couldEver tells whether the request would fit if nothing ran on the node.
func couldEver(view *placement.View, r *placement.Request) bool {
	able := 0
	for c := range view.Cards() {
		if c.Healthy && c.TotalMiB-c.ReservedMiB-c.UnaccountedMiB >= r.MiB {
			able++
		}
	}
	return able >= r.Cards
}

// PostFilter makes no room; it tells which of many nodes came closest, after
// preemption has found nothing either.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	w, err := read(state)
	if err != nil || w.nodes <= fewNodes {
		return nil, fwk.NewStatus(fwk.Unschedulable) // no GPU Pod, or everything is said
	}
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("list nodes: %w", err))
	}
	var all []*placement.View
	for _, info := range infos {
		if view, err := p.views.of(info); err == nil {
			all = append(all, view)
		}
	}
	decision, err := placement.Choose(all, w.request, w.sizes)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if decision.Fits() {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node %s has the GPU memory, but is refused for other reasons", decision.Node))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, decision.Reason)
}

// PreScore leaves Pods alone that ask for no card.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, err := read(state); err != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is the choice's rank on the node, negated; NormalizeScore puts it into
// the framework's range.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	w, err := read(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	_, choice, fits, err := p.fit(w, pod, info)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if !fits {
		return 0, fwk.NewStatus(fwk.Unschedulable, "the cards were taken while nodes were scored")
	}
	return -choice.Rank(), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore spreads ranks evenly: ranks are far apart or next to each
// other for reasons that have nothing to do with how much better they are.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	order := make([]int64, 0, len(scores))
	for _, s := range scores {
		order = append(order, s.Score)
	}
	slices.Sort(order)
	order = slices.Compact(order)
	for i := range scores {
		place, _ := slices.BinarySearch(order, scores[i].Score)
		scores[i].Score = fwk.MaxScore
		if len(order) > 1 {
			scores[i].Score = int64(place) * fwk.MaxScore / int64(len(order)-1)
		}
	}
	return nil
}

// Reserve decides on the cards. It is deterministic, and repeating it changes
// nothing; in the simulation of a Pod group Unreserve leaves no trace of it.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if !asks(pod) {
		return nil
	}
	w, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if h, held := p.ledger.find(pod.UID, nodeName); held && !h.doubt.IsZero() {
		if h.mib != w.request.MiB || len(h.cards) != w.request.Cards {
			return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("the Pod may be bound to this node already, as it was before its request was changed; that is known %s after the last Binding", resolveAfter))
		}
		p.ledger.doubtful(pod.UID, nodeName) // for as long again
		return nil                           // a Binding in doubt is repeated to the letter
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("read node %s: %w", nodeName, err))
	}
	view, choice, fits, err := p.fit(w, pod, info)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !fits {
		return fwk.NewStatus(fwk.Unschedulable, view.Shortfall(&w.request).String())
	}
	p.ledger.put(hold{pod: pod.UID, name: key(pod), node: nodeName, cards: slices.Clone(choice.Cards), mib: w.request.MiB})
	return nil
}

// Unreserve takes a decision back, if there is one and its Binding cannot have
// taken effect.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) {
	p.ledger.drop(pod.UID, nodeName)
}
