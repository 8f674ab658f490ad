package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// overdue is how long after the end of its grace period a Pod that is still
// there counts as stuck.
const overdue = 30 * time.Second

// status is what the object and its Pods say.
func (t *Target) status(ms *v1alpha1.ModelService, pods []*corev1.Pod) delivery.Status {
	// Another installation may have the same name in another namespace.
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p.Namespace != ms.Namespace })
	st := statusOf(ms, podsOf(pods, ms.UID), t.cfg.Clock())
	t.dressAll(&st, pods, ms)
	st.Earlier = remains{pods: pods}.earlier(ms.UID)
	known, last, fail := t.proofs.of(ms.Namespace, ms.Name)
	if known.UID == st.Object.UID {
		st.Last = last
		if st.LastFailure == nil {
			st.LastFailure = fail
		}
	}
	return st
}

// statusOf is pure: pods are those of this very object.
func statusOf(ms *v1alpha1.ModelService, pods []*corev1.Pod, now time.Time) delivery.Status {
	st := delivery.Status{
		Ref: refOf(ms), Object: identity(ms), Ledger: ledgerOf(ms), JournalSeq: journalSeq(ms), Exists: true,
		Wanted:    int(min(ms.Spec.Replicas, ms.Spec.Budget.FundedReplicas)),
		Asked:     int(ms.Spec.Replicas),
		Funded:    int(ms.Spec.Budget.FundedReplicas),
		Scaling:   steps(ms),
		Replicas:  replicas(pods, ms, now),
		CreatedAt: ms.CreationTimestamp.Time, ObservedAt: now,
	}
	if c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionAutoscalerConflict); c != nil && c.Reason != v1alpha1.ReasonAutoscalerBelow {
		st.OtherScaler = c.Message
	}
	if observed(ms) {
		// Until the operator has seen this object, its Pods are an earlier one's.
		st.Generation = generation(ms)
	}
	if ms.DeletionTimestamp != nil {
		st.DeletingAt = ms.DeletionTimestamp.Time
	}
	for _, r := range st.Replicas {
		if r.Phase == delivery.PhaseReady && st.Ready < st.Wanted {
			st.Ready++
		}
	}
	if ms.Status.LastFailure != nil {
		st.LastFailure = failure(ms.Status.LastFailure)
	}
	st.Reason, st.Message = reasonOf(ms, st)
	return st
}

func observed(ms *v1alpha1.ModelService) bool { return ms.Status.ObservedGeneration == ms.Generation }

func failure(f *v1alpha1.Failure) *delivery.Failure {
	return &delivery.Failure{
		Reason: delivery.Reason(f.Reason), Message: f.Message, Replica: f.Pod, At: f.At.Time, ExitCode: int(f.ExitCode),
	}
}

// reasonOf is the operator's reason, unless what is seen here goes before it.
func reasonOf(ms *v1alpha1.ModelService, st delivery.Status) (delivery.Reason, string) {
	if !st.DeletingAt.IsZero() {
		for _, r := range st.Replicas {
			if r.Reason == delivery.ReleaseBlocked {
				return delivery.ReleaseBlocked, r.Message
			}
		}
		return delivery.Draining, fmt.Sprintf("the object is going away; %d Pods still hold their cards", len(st.Replicas))
	}
	if c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionOwnershipConflict); c != nil && c.Status == metav1.ConditionTrue {
		return delivery.NotOwned, c.Message
	}
	counts := fmt.Sprintf("%d of %d replicas are ready", st.Ready, st.Wanted)
	switch {
	case st.Wanted == 0:
		return delivery.ScaledToZero, "it sleeps: the next call wakes it"
	case st.Ready >= st.Wanted:
		return delivery.Available, counts
	case !observed(ms):
		return delivery.Loading, counts + "; the operator has not seen the latest change yet"
	}
	ready := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason == "" || delivery.Reason(ready.Reason) == delivery.Available {
		return delivery.Loading, counts
	}
	if ready.Message == "" {
		return delivery.Reason(ready.Reason), counts
	}
	return delivery.Reason(ready.Reason), ready.Message
}

// replicas are the Pods in order of their names; ms may be nil where the
// object is gone.
func replicas(pods []*corev1.Pod, ms *v1alpha1.ModelService, now time.Time) []delivery.Replica {
	var out []delivery.Replica
	for _, pod := range pods {
		r := replica(pod, ms)
		if late := pod.DeletionTimestamp; late != nil && now.Sub(late.Time) > overdue {
			r.Reason = delivery.ReleaseBlocked
			r.Message = fmt.Sprintf("Pod %s/%s on node %s should have ended at %s and is still there; if the node is gone, delete the Pod by force, or release the request with --force",
				pod.Namespace, pod.Name, r.Node, late.UTC().Format(time.RFC3339))
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b delivery.Replica) int { return strings.Compare(a.Name, b.Name) })
	return out
}
