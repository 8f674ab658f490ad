package gpumemory

import (
	"cmp"
	"slices"
	"strings"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"modeldock.io/internal/placement"
)

// takeNominated counts Pods that were promised room by a preemption, the most
// important first: where they would go beside those that stay. One that fits
// nowhere is waiting for victims that are not ending yet; which of its cards
// they will leave is not known, so it counts on each that could be.
func takeNominated(view *placement.View, cards []placement.Card, staying, nominated []account) error {
	slices.SortFunc(nominated, func(a, b account) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod)), strings.Compare(string(a.pod.UID), string(b.pod.UID)))
	})
	for i := range nominated {
		n := &nominated[i]
		if choice, fits := view.Fit(&n.request, nil, nil); fits {
			n.cards = uuids(choice.Cards)
		} else {
			var err error
			if n.cards, err = awaited(view.Name, cards, staying, nominated[:i], n); err != nil {
				return err
			}
		}
		if err := take(view, nominated[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// awaited are the cards that would have room for n without those who are less
// important. Too few of them mean that n has lost its place: then none.
func awaited(node string, cards []placement.Card, staying, before []account, n *account) ([]string, error) {
	bare, err := placement.NewView(placement.Node{Name: node, Cards: cards}, nil)
	if err != nil {
		return nil, err
	}
	firm := slices.Concat(slices.DeleteFunc(slices.Clone(staying), func(a account) bool {
		return a.pod != nil && corev1helpers.PodPriority(a.pod) < corev1helpers.PodPriority(n.pod)
	}), before)
	if err := take(bare, firm); err != nil {
		return nil, err
	}
	var able []string
	for c := range bare.Cards() {
		if c.FreeMiB >= n.request.MiB {
			able = append(able, c.UUID)
		}
	}
	if len(able) < n.request.Cards {
		return nil, nil
	}
	return able, nil
}
