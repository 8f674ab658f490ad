package operator

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"modeldock.io/api/v1alpha1"
)

// planRelease takes everything away that carries the object's UID, in the
// order in which callers notice least: the Pods end first, each once its
// streams have, and leave the endpoints when they begin to; then the Service;
// and the object itself last.
func planRelease(o Observed) Steps {
	var s Steps
	if !controllerutil.ContainsFinalizer(o.Object, v1alpha1.FinalizerLedger) {
		return s // not ours to keep; what is left is garbage that the cluster collects
	}
	remove := func(kind string, child metav1.Object, why string) {
		if !terminating(child) {
			s.Actions = append(s.Actions, Action{Verb: Delete, Kind: kind, Name: child.GetName(), UID: child.GetUID(), Why: why})
		}
	}
	ours := func(kind string, c metav1.Object) bool { return c != nil && conflictOf(o.Object, kind, c) == nil }
	const released = "the object was deleted"

	// 1. The Deployment, which takes its ReplicaSets and Pods along before it goes.
	if c := childOf(o.Deployment); ours(kindDeployment, c) {
		remove(kindDeployment, c, released)
		s.Waiting = waitingFor(o, "Deployment "+c.GetName())
		return s
	}
	// 2. What nobody takes along, because the Deployment was taken from above it.
	for i := range o.ReplicaSets {
		if rs := &o.ReplicaSets[i]; madeBy(rs, kindDeployment) {
			remove(kindReplicaSet, rs, "its Deployment is gone")
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; madeBy(p, kindReplicaSet) && !replicaSetOf(o, p) {
			remove(kindPod, p, "its ReplicaSet is gone")
		}
	}
	if len(o.ReplicaSets)+len(o.Pods) > 0 {
		s.Waiting = waitingFor(o, fmt.Sprintf("%d ReplicaSets", len(o.ReplicaSets)))
		return s
	}
	// 3. What claims were made from, and the Service.
	for i := range o.ClaimTemplates {
		if t := &o.ClaimTemplates[i]; ours(kindClaimTemplate, t) {
			remove(kindClaimTemplate, t, released)
		}
	}
	if c := childOf(o.Service); ours(kindService, c) {
		remove(kindService, c, released)
		s.Waiting = "Service " + c.GetName() + " is still there"
		return s
	}
	// 4. The object.
	s.Actions = append(s.Actions, Action{
		Verb: RemoveFinalizer, Kind: kindModelService, Name: o.Object.Name, UID: o.Object.UID,
		Why: "nothing that carried its UID is left",
	})
	return s
}

// madeBy reports whether o was made by a controller of this kind, or is left
// over from one. What another kind of controller keeps is for its user to end.
func madeBy(o metav1.Object, kind string) bool {
	owner := metav1.GetControllerOf(o)
	return owner == nil || owner.Kind == kind
}

// replicaSetOf reports whether one of the ReplicaSets seen owns p.
func replicaSetOf(o Observed, p metav1.Object) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return false
	}
	for i := range o.ReplicaSets {
		if o.ReplicaSets[i].UID == owner.UID {
			return true
		}
	}
	return false
}

func waitingFor(o Observed, otherwise string) string {
	if len(o.Pods) == 0 {
		return otherwise + " is still there"
	}
	var names []string
	for i := range o.Pods {
		names = append(names, o.Pods[i].Name)
	}
	const most = 5
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return "Pods that still hold their cards: " + strings.Join(names, ", ")
}
