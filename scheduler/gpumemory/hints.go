package gpumemory

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// EventsToRegister names what can make a Pod fit that did not.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterDelete},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAnnotation}, QueueingHintFn: p.afterNode},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterEdit},
	}, nil
}

// afterDelete wakes a Pod when one that held cards is gone, if these are large
// enough for it when empty.
func (p *Plugin) afterDelete(_ klog.Logger, pod *v1.Pod, old, _ any) (fwk.QueueingHint, error) {
	left, ok := old.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("a deleted Pod is a %T", old)
	}
	if !asks(left) && left.Annotations[CardAnnotation] == "" {
		return fwk.QueueSkip, nil
	}
	cards, known := p.views.cardsOf(left.Spec.NodeName)
	return p.might(pod, cards, known)
}

// afterNode wakes a Pod when a node comes or its cards change.
func (p *Plugin) afterNode(_ klog.Logger, pod *v1.Pod, old, changed any) (fwk.QueueingHint, error) {
	node, ok := changed.(*v1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("a changed node is a %T", changed)
	}
	raw := node.Annotations[nodecards.Annotation]
	if before, ok := old.(*v1.Node); ok && before != nil && before.Annotations[nodecards.Annotation] == raw {
		return fwk.QueueSkip, nil
	}
	cards, err := nodecards.Parse(raw)
	if err != nil {
		return fwk.QueueSkip, nil //nolint:nilerr // such a node takes no Pod, which Filter explains
	}
	return p.might(pod, cards, true)
}

// afterEdit wakes a Pod whose own request was changed.
func afterEdit(_ klog.Logger, _ *v1.Pod, old, changed any) (fwk.QueueingHint, error) {
	before, ok1 := old.(*v1.Pod)
	after, ok2 := changed.(*v1.Pod)
	if !ok1 || !ok2 {
		return fwk.Queue, fmt.Errorf("an edited Pod is a %T, before a %T", changed, old)
	}
	for _, name := range placement.RequestAnnotations() {
		a, hadIt := before.Annotations[name]
		b, hasIt := after.Annotations[name]
		if a != b || hadIt != hasIt {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// might tells whether the cards, empty, could hold what the Pod asks for.
func (p *Plugin) might(pod *v1.Pod, cards []nodecards.Card, known bool) (fwk.QueueingHint, error) {
	request, asked, err := placement.FromAnnotations(pod.Annotations)
	if err != nil || !asked {
		return fwk.QueueSkip, nil //nolint:nilerr // only an edit of the Pod helps it
	}
	if !known {
		return fwk.Queue, nil
	}
	able := 0
	for _, c := range cards {
		if c.Healthy && c.TotalMiB-p.reserve.Of(c.TotalMiB) >= request.MiB {
			able++
		}
	}
	if able < request.Cards {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// cardsOf returns the cards that were last read of a node.
func (s *views) cardsOf(node string) ([]nodecards.Card, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.nodes[node]
	if v == nil || v.err != nil {
		return nil, false
	}
	return v.cards, true
}
