package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// clusterFleet shows the cluster's nodes: the cards that their agents tell of,
// and what the scheduler gave to Pods. What the cards measure stands with the
// agents and is not known here.
type clusterFleet struct{ client kubernetes.Interface }

// Pods that ended hold nothing; the others are asked for from the API server's
// memory, not from its database.
var holding = metav1.ListOptions{
	FieldSelector: "spec.nodeName!=,status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed), ResourceVersion: "0",
}

// Nodes implements api.Fleet.
func (f clusterFleet) Nodes(ctx context.Context) ([]openapi.Node, error) {
	nodes, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	described := false
	for i := range nodes.Items {
		described = described || nodes.Items[i].Annotations[nodecards.Annotation] != ""
	}
	pods := &corev1.PodList{}
	if described { // without cards there is nothing that Pods could hold
		if pods, err = f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, holding); err != nil {
			return nil, fmt.Errorf("list the Pods that hold cards: %w", err)
		}
	}
	return clusterNodes(nodes.Items, pods.Items)
}

func clusterNodes(nodes []corev1.Node, pods []corev1.Pod) ([]openapi.Node, error) {
	held := map[string][]*corev1.Pod{}
	for i := range pods {
		if pods[i].Annotations[v1alpha1.AnnotationCard] != "" {
			held[pods[i].Spec.NodeName] = append(held[pods[i].Spec.NodeName], &pods[i])
		}
	}
	out := make([]openapi.Node, 0, len(nodes))
	for i := range nodes {
		node, err := clusterNode(&nodes[i], held[nodes[i].Name])
		if err != nil {
			return nil, err
		}
		out = append(out, node)
	}
	return out, nil
}

// clusterNode leaves the cards out where their description cannot be read:
// they take no model either, and the node's own events say why.
func clusterNode(n *corev1.Node, pods []*corev1.Pod) (openapi.Node, error) {
	out := openapi.Node{Node: n.Name, Cards: []openapi.Card{}}
	text := n.Annotations[nodecards.Annotation]
	if text == "" {
		return out, nil
	}
	described, err := nodecards.Parse(text)
	if err != nil {
		return out, nil //nolint:nilerr // see above
	}
	reserve := placement.DefaultReserve()
	node := placement.Node{Name: n.Name}
	for _, c := range described {
		out.Simulated = out.Simulated || c.Simulated
		node.Cards = append(node.Cards, placement.Card{
			UUID: c.UUID, Index: c.Index, Model: c.Model, TotalMiB: c.TotalMiB, ReservedMiB: reserve.Of(c.TotalMiB), Healthy: c.Healthy,
		})
	}
	taken, named := allocationsOf(pods)
	view, err := placement.NewView(node, taken)
	if err != nil {
		return out, fmt.Errorf("count what is free: %w", err)
	}
	states := map[string]placement.CardState{}
	for s := range view.Cards() {
		states[s.UUID] = s
	}
	for _, c := range described {
		s := states[c.UUID]
		card := openapi.Card{
			Uuid: c.UUID, Index: c.Index, Model: c.Model, Simulated: c.Simulated, Healthy: c.Healthy, Isolation: openapi.CardIsolation(c.Isolation),
			TotalMiB: c.TotalMiB, ReservedMiB: s.ReservedMiB, AllocatedMiB: s.AllocatedMiB, FreeMiB: s.FreeMiB, Allocations: []openapi.Allocation{},
		}
		card.Allocations = append(card.Allocations, named[c.UUID]...)
		out.LargestFragmentMiB = max(out.LargestFragmentMiB, s.FreeMiB)
		out.Cards = append(out.Cards, card)
	}
	return out, nil
}

// allocationsOf reads what Pods were given. One whose request cannot be read
// was not placed by the scheduler of cards, and holds nothing that it counts.
func allocationsOf(pods []*corev1.Pod) (taken []placement.Allocation, named map[string][]openapi.Allocation) {
	named = map[string][]openapi.Allocation{}
	for _, p := range pods {
		r, asked, err := placement.FromAnnotations(p.Annotations)
		if err != nil || !asked {
			continue
		}
		for card := range strings.SplitSeq(p.Annotations[v1alpha1.AnnotationCard], ",") {
			taken = append(taken, placement.Allocation{Owner: string(p.UID), Card: card, MiB: r.MiB})
			named[card] = append(named[card], openapi.Allocation{
				Uid: string(p.UID), Tenant: p.Annotations[v1alpha1.AnnotationTenant], RequestId: p.Annotations[v1alpha1.AnnotationID], Mib: r.MiB,
			})
		}
	}
	return taken, named
}
