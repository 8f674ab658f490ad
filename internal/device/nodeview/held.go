package nodeview

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

const mebibyte = 1 << 20

// Allocation is what one Pod holds of a card, to its last container.
type Allocation struct {
	UID        string // of the Pod; of the claim, while no Pod uses it
	Namespace  string
	Tenant, ID string // of the reservation; empty: it is nobody's of a ledger
	MiB        int64
	Buffer     string // pool and class that the room is kept for; empty: it is no such Pod
}

type held struct {
	card string // uuid
	Allocation
}

// held lists what Pods and claims hold of a node's cards.
func (c *Cluster) held(node string, cards []nodecards.Card) []held {
	var all []held
	for _, pod := range c.pods.By(node) {
		all = append(all, heldBy(pod, cards)...)
	}
	if c.claims == nil {
		return all
	}
	for _, claim := range c.claims.By(node) {
		for _, s := range sharesOf(claim, node) {
			if card, known := c.card(node, s.device); known {
				if s.mib == 0 { // the whole card
					s.mib = max(1, card.TotalMiB-c.cfg.Reserve.Of(card.TotalMiB))
				}
				all = append(all, held{card: card.UUID, Allocation: Allocation{
					UID: userOf(claim), Namespace: claim.Namespace, MiB: s.mib,
					Tenant: claim.Annotations[v1alpha1.AnnotationTenant], ID: claim.Annotations[v1alpha1.AnnotationID],
				}})
			}
		}
	}
	return all
}

// heldBy counts a Pod as the scheduler does: by the decision that stands on it;
// one that somebody else bound may use any card, and one whose size cannot be
// read counts as the largest card.
func heldBy(pod *corev1.Pod, cards []nodecards.Card) []held {
	request, asked, err := placement.FromAnnotations(pod.Annotations)
	decided := pod.Annotations[v1alpha1.AnnotationCard]
	if !asked && decided == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	mib := request.MiB
	if err != nil || !asked {
		mib = 1
		for _, card := range cards {
			mib = max(mib, card.TotalMiB)
		}
	}
	var uuids []string
	if decided != "" {
		uuids = strings.Split(decided, ",")
	} else {
		for _, card := range cards {
			uuids = append(uuids, card.UUID)
		}
	}
	all := make([]held, 0, len(uuids))
	for _, uuid := range uuids {
		all = append(all, held{card: uuid, Allocation: Allocation{
			UID: string(pod.UID), Namespace: pod.Namespace, MiB: mib,
			Tenant: pod.Annotations[v1alpha1.AnnotationTenant], ID: pod.Annotations[v1alpha1.AnnotationID],
			Buffer: pod.Annotations[v1alpha1.AnnotationBuffer],
		}})
	}
	return all
}

// share is a claim's part of one device; no memory is said where it is whole.
type share struct {
	device string
	mib    int64
}

func sharesOf(claim *resourceapi.ResourceClaim, node string) []share {
	if claim.Status.Allocation == nil {
		return nil
	}
	var all []share
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != v1alpha1.DRADriver || r.Pool != node {
			continue
		}
		s := share{device: r.Device}
		if memory, said := r.ConsumedCapacity[v1alpha1.DRACapacity]; said {
			s.mib = (memory.Value() + mebibyte - 1) / mebibyte
		}
		all = append(all, s)
	}
	return all
}

func userOf(claim *resourceapi.ResourceClaim) string {
	if len(claim.Status.ReservedFor) > 0 {
		return string(claim.Status.ReservedFor[0].UID)
	}
	return string(claim.UID)
}

// Given is a card as a Pod got it.
type Given struct {
	nodecards.Card
	MiB int64
}

// Of is the decision of a Pod's cards as it stands on the Pod or on its claims,
// with what the node says of them. A card that the node does not describe (any
// more) has no more than its name.
func (c *Cluster) Of(pod *corev1.Pod) []Given {
	var given []Given
	add := func(name string, mib int64) {
		card, known := c.card(pod.Spec.NodeName, name)
		if !known {
			card = nodecards.Card{UUID: name, Index: -1}
		}
		if mib == 0 {
			mib = max(0, card.TotalMiB-c.cfg.Reserve.Of(card.TotalMiB))
		}
		given = append(given, Given{Card: card, MiB: mib})
	}
	if decided := pod.Annotations[v1alpha1.AnnotationCard]; decided != "" {
		request, _, _ := placement.FromAnnotations(pod.Annotations) // what is unreadable is 0
		for _, uuid := range strings.Split(decided, ",") {
			add(strings.TrimSpace(uuid), request.MiB)
		}
	}
	if c.claims == nil || pod.Spec.NodeName == "" {
		return given
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName == nil {
			continue
		}
		if claim, there := c.claims.Get(pod.Namespace, *s.ResourceClaimName); there {
			for _, part := range sharesOf(claim, pod.Spec.NodeName) {
				add(part.device, part.mib)
			}
		}
	}
	return given
}
