package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// conditions sets every condition. One that is as it should be has the reason
// Available; the others have the reason why not.
func (v View) conditions(st *v1alpha1.ModelServiceStatus, replicas []replica) {
	verdict := v.verdict(replicas, st.ReadyReplicas)
	running := Running(v.Object)
	set := func(kind string, status metav1.ConditionStatus, c cause) {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: string(c.reason), Message: c.message,
			ObservedGeneration: v.Object.Generation, LastTransitionTime: metav1.NewTime(v.Now),
		})
	}
	is := func(kind string, yes bool, c cause) {
		if yes {
			set(kind, metav1.ConditionTrue, c)
		} else {
			set(kind, metav1.ConditionFalse, c)
		}
	}
	is(v1alpha1.ConditionChildrenApplied, v.childrenApplied(), v.childrenCause(verdict))
	is(v1alpha1.ConditionScheduled, placed(replicas) >= running && running > 0, scheduledCause(replicas, running, verdict))
	if v.GPU == GPUNone || v.GPU == "" {
		set(v1alpha1.ConditionDevicesAllocated, metav1.ConditionUnknown, cause{NotTracked, "Pods of this installation ask for no card, so nothing tells which they use"})
	} else {
		n := allocated(replicas)
		is(v1alpha1.ConditionDevicesAllocated, n >= running && running > 0, counted(n, running, "have a card", verdict))
	}
	is(v1alpha1.ConditionEngineReady, st.ReadyReplicas >= running && running > 0, counted(st.ReadyReplicas, running, "answer their health check", verdict))
	is(v1alpha1.ConditionReady, verdict.reason == delivery.Available, verdict)
	if len(v.Steps.Conflicts) > 0 {
		set(v1alpha1.ConditionOwnershipConflict, metav1.ConditionTrue, cause{delivery.NotOwned, v.Steps.Conflicts[0].String()})
	} else {
		set(v1alpha1.ConditionOwnershipConflict, metav1.ConditionFalse, cause{delivery.Available, "no child's name is taken"})
	}
	foreign, inTheWay := v.conflictingScalers()
	if inTheWay {
		set(v1alpha1.ConditionAutoscalerConflict, metav1.ConditionTrue, foreign)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionAutoscalerConflict)
	}
	stalled := len(v.Steps.Conflicts) > 0 || verdict.reason == delivery.ReleaseBlocked || (v.Trouble != nil && v.Trouble.Stalled)
	if stalled {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, verdict)
	} else {
		set(v1alpha1.ConditionStalled, metav1.ConditionFalse, cause{delivery.Available, "nothing waits for a person"})
	}
}

func (v View) childrenApplied() bool {
	return !terminating(v.Object) && len(v.Steps.Conflicts) == 0 && v.Trouble == nil && v.Steps.Waiting == "" && !v.unapplied()
}

func (v View) childrenCause(verdict cause) cause {
	switch {
	case v.childrenApplied():
		if v.Service == nil && !v.addressed() {
			return cause{delivery.Available, "the Deployment is as declared; its Service comes with the first Pod's address"}
		}
		return cause{delivery.Available, "Deployment and Service are as declared"}
	case terminating(v.Object), len(v.Steps.Conflicts) > 0, v.Trouble != nil, v.Steps.Waiting != "":
		return verdict
	}
	return cause{delivery.Loading, "the children are being brought to what is declared"}
}

// placed counts the replicas of this generation that have a node.
func placed(replicas []replica) int32 {
	return count(replicas, func(r replica) bool { return r.pod.Spec.NodeName != "" })
}

// allocated counts those that have a card as well.
func allocated(replicas []replica) int32 {
	return count(replicas, func(r replica) bool {
		return r.pod.Spec.NodeName != "" && r.card != ""
	})
}

func count(replicas []replica, is func(replica) bool) int32 {
	var n int32
	for _, r := range replicas {
		if r.current && !terminating(r.pod) && !finished(r.pod) && is(r) {
			n++
		}
	}
	return n
}

func scheduledCause(replicas []replica, running int32, verdict cause) cause {
	for _, r := range replicas {
		if r.current && (r.cause.reason == delivery.NoFragmentFits || r.cause.reason == delivery.WaitingForNode) {
			return cause{r.cause.reason, on(r)}
		}
	}
	return counted(placed(replicas), running, "have a node", verdict)
}

// counted speaks of n of so many; the verdict is the reason where it is not all.
func counted(n, of int32, what string, verdict cause) cause {
	message := fmt.Sprintf("%d of %d replicas %s", n, of, what)
	if n >= of && of > 0 {
		return cause{delivery.Available, message}
	}
	if verdict.reason == delivery.Available { // of an earlier look
		return cause{delivery.Loading, message}
	}
	return cause{verdict.reason, message}
}
