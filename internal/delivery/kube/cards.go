package kube

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// Cards is what a target is told of the cards of its cluster.
type Cards interface {
	// Of lists the cards that a Pod was given, from the annotations or the
	// claims that say so.
	Of(pod *corev1.Pod) []delivery.Card
	// Shortfall says with figures why so much memory on each of so many cards of
	// one node is nowhere now; empty: it is, or nobody knows.
	Shortfall(mib int64, cards int) string
}

// cards are the scheduler's decision as it stands on the Pod.
func cards(pod *corev1.Pod, ms *v1alpha1.ModelService) []delivery.Card {
	uuids := pod.Annotations[v1alpha1.AnnotationCard]
	if uuids == "" {
		return nil
	}
	indices, free := strings.Split(pod.Annotations[v1alpha1.AnnotationCardIndex], ","), strings.Split(pod.Annotations[v1alpha1.AnnotationCardFree], ",")
	var out []delivery.Card
	for i, uuid := range strings.Split(uuids, ",") {
		c := delivery.Card{UUID: strings.TrimSpace(uuid), Index: int(entry(indices, i, -1)), FreeMiB: entry(free, i, 0)}
		if ms != nil {
			c.MiB = ms.Spec.GPU.MemoryMiB
		}
		out = append(out, c)
	}
	return out
}

// entry is the i-th number of a list, or otherwise.
func entry(list []string, i int, otherwise int64) int64 {
	if i >= len(list) {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.TrimSpace(list[i]), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// asksForNoCard reports whether a Pod has no card and waits for none: nothing
// on the cluster then tells which one it uses.
func asksForNoCard(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationCard] == "" && pod.Annotations[v1alpha1.AnnotationGPUMemory] == "" && !claims(pod)
}

func claims(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }

// dress adds to a replica what the Pod itself does not say of its cards: their
// models, the card of a claim, and which memory is missing where the scheduler
// of claims has no figures. ms may be nil.
func (t *Target) dress(r *delivery.Replica, pod *corev1.Pod, ms *v1alpha1.ModelService) {
	if t.cfg.Cards == nil {
		return
	}
	if given := t.cfg.Cards.Of(pod); len(given) > 0 {
		for i := range given {
			if at := slices.IndexFunc(r.Cards, func(c delivery.Card) bool { return c.UUID == given[i].UUID }); at >= 0 {
				given[i].FreeMiB = r.Cards[at].FreeMiB
			}
		}
		r.Cards = given
	}
	if r.Reason == delivery.NoFragmentFits && claims(pod) && ms != nil {
		if figures := t.cfg.Cards.Shortfall(ms.Spec.GPU.MemoryMiB, int(max(1, ms.Spec.GPU.Count))); figures != "" {
			r.Message = figures + " (" + r.Message + ")"
		}
	}
}

// dressAll dresses the replicas of a status, and takes their figures over where
// they are the reason of the whole.
func (t *Target) dressAll(st *delivery.Status, pods []*corev1.Pod, ms *v1alpha1.ModelService) {
	for i := range st.Replicas {
		r := &st.Replicas[i]
		at := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return string(p.UID) == r.UID })
		if at < 0 {
			continue
		}
		before := r.Message
		t.dress(r, pods[at], ms)
		if r.Message != before && st.Reason == delivery.NoFragmentFits && strings.Contains(st.Message, before) {
			st.Message = strings.Replace(st.Message, before, r.Message, 1)
		}
	}
}
