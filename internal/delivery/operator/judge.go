package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// NotTracked is why nothing is said of devices where Pods ask for none.
const NotTracked delivery.Reason = "NotTracked"

// Trouble is what reconciling itself ran into.
type Trouble struct {
	Reason  delivery.Reason
	Message string
	Stalled bool // it does not go away by itself
}

// View is everything that a status is judged by.
type View struct {
	Observed
	Steps      Steps
	Written    bool // they were carried out
	Trouble    *Trouble
	GPU        GPUMode
	StuckAfter time.Duration
}

// mostPods bounds the list in a status; the counts have no bound.
const mostPods = 256

// replica is a Pod with what is to be said of it.
type replica struct {
	pod     *corev1.Pod
	cause   cause
	card    string // its first one, as the scheduler decided; empty: none yet
	current bool   // runs what is declared now
}

// Judge derives the whole status from what was seen. It is a function: judged
// again without news, the status is the same.
func Judge(v View) v1alpha1.ModelServiceStatus {
	m := v.Object
	st := *m.Status.DeepCopy()
	st.ObservedGeneration = m.Generation
	st.Selector = selectorText(m)
	st.Replicas, st.ReadyReplicas, st.Pods = 0, 0, nil
	replicas := v.replicas()
	for _, r := range replicas {
		if !finished(r.pod) {
			st.Replicas++
		}
		if r.current && isReady(r.pod) {
			st.ReadyReplicas++
		}
		st.Pods = append(st.Pods, podStatus(r, before(m, r.pod)))
		if f := failureOf(r.pod, r.cause); newer(f, st.LastFailure) {
			st.LastFailure = f
		}
	}
	if len(st.Pods) > mostPods {
		st.Pods = st.Pods[:mostPods]
	}
	v.conditions(&st, replicas)
	return st
}

// replicas lists the Pods by name, finished ones last.
func (v View) replicas() []replica {
	current := v.currentReplicaSet()
	list := make([]replica, 0, len(v.Pods))
	for i := range v.Pods {
		p := &v.Pods[i]
		list = append(list, replica{
			pod:     p,
			cause:   podCause(p, before(v.Object, p), v.Now, v.StuckAfter),
			card:    v.card(p),
			current: current != "" && ownedBy(p, current),
		})
	}
	slices.SortFunc(list, func(a, b replica) int {
		if fa, fb := finished(a.pod), finished(b.pod); fa != fb {
			if fb {
				return -1
			}
			return 1
		}
		return strings.Compare(a.pod.Name, b.pod.Name)
	})
	return list
}

// card is the scheduler's decision as it stands on the Pod or on its claim.
func (v View) card(p *corev1.Pod) string {
	if v.GPU == GPUDRA {
		return v.device(p)
	}
	first, _, _ := strings.Cut(p.Annotations[v1alpha1.AnnotationCard], ",")
	return first
}

func before(m *v1alpha1.ModelService, p *corev1.Pod) *v1alpha1.PodStatus {
	for i := range m.Status.Pods {
		if m.Status.Pods[i].UID == string(p.UID) {
			return &m.Status.Pods[i]
		}
	}
	return nil
}

func podStatus(r replica, earlier *v1alpha1.PodStatus) v1alpha1.PodStatus {
	s := v1alpha1.PodStatus{
		Name: r.pod.Name, UID: string(r.pod.UID), Node: r.pod.Spec.NodeName, Phase: r.pod.Status.Phase,
		Reason: string(r.cause.reason), Message: r.cause.message, Terminating: terminating(r.pod),
		EverReady: wasReady(r.pod, earlier),
	}
	s.Card = r.card
	if c := podCondition(r.pod, corev1.PodReady); isReady(r.pod) {
		since := metav1.NewTime(c.LastTransitionTime.Truncate(time.Second))
		s.ReadySince = &since
	}
	return s
}

// verdict is why the object is, or is not, ready: the first true cause, and
// never one of its consequences.
func (v View) verdict(replicas []replica, ready int32) cause {
	m := v.Object
	running := Running(m)
	switch {
	case terminating(m):
		return v.releaseVerdict(replicas)
	case len(v.Steps.Conflicts) > 0:
		return cause{delivery.NotOwned, v.Steps.Conflicts[0].String()}
	case v.Trouble != nil:
		return cause{v.Trouble.Reason, v.Trouble.Message}
	case m.Spec.Replicas == 0:
		return cause{delivery.ScaledToZero, fmt.Sprintf("no replica is wanted; %d still end", len(replicas))}
	case running == 0:
		return cause{delivery.BudgetBlocked, fmt.Sprintf("%d replicas are wanted and none is funded", m.Spec.Replicas)}
	case v.Steps.Waiting != "":
		return cause{delivery.Loading, v.Steps.Waiting}
	case v.unapplied():
		return cause{delivery.Loading, "the children are being brought to what is declared"}
	case ready < running:
		return v.unreadyVerdict(replicas, ready, running)
	case m.Spec.Replicas > running:
		return cause{delivery.BudgetBlocked, fmt.Sprintf("%d replicas are wanted, %d are funded and ready", m.Spec.Replicas, running)}
	}
	return cause{delivery.Available, fmt.Sprintf("%d of %d replicas are ready", ready, running)}
}

// unapplied reports whether a child still has to change, or was changed a
// moment ago and not seen since. Nothing of a Service has to be seen: it is as
// declared once it is written.
func (v View) unapplied() bool {
	return v.Deployment == nil || slices.ContainsFunc(v.Steps.Actions, func(a Action) bool {
		return (a.Verb == Create || a.Verb == Apply) && (a.Kind != kindService || !v.Written)
	})
}

func (v View) releaseVerdict(replicas []replica) cause {
	for _, r := range replicas {
		if r.cause.reason == delivery.ReleaseBlocked {
			return cause{delivery.ReleaseBlocked, on(r)}
		}
	}
	message := "the object was deleted. " + v.Steps.Waiting
	if v.Trouble != nil {
		message += "; " + v.Trouble.Message
	}
	return cause{delivery.Draining, message}
}

// unreadyVerdict looks along the chain: no Pod, no node, no image, no engine.
func (v View) unreadyVerdict(replicas []replica, ready, running int32) cause {
	if c := deploymentCondition(v.Deployment, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return cause{delivery.ReplicaFailure, "the cluster refuses to make Pods: " + said(c.Reason, c.Message)}
	}
	for _, reason := range []delivery.Reason{
		delivery.NoFragmentFits, delivery.WaitingForNode, delivery.ImagePullFailed, delivery.ModelLoadFailed, delivery.CrashLooping, delivery.Crashed,
	} {
		for _, r := range replicas {
			if r.current && r.cause.reason == reason && !finished(r.pod) {
				return cause{reason, on(r)}
			}
		}
	}
	if c := deploymentCondition(v.Deployment, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
		return cause{delivery.ProgressDeadlineExceeded, said(c.Reason, c.Message)}
	}
	message := fmt.Sprintf("%d of %d replicas of this generation are ready", ready, running)
	if older := olderReady(replicas); older > 0 {
		message += fmt.Sprintf("; %d of an earlier one still serve", older)
	}
	for _, r := range replicas {
		if r.current && r.cause.reason == delivery.Loading {
			return cause{delivery.Loading, message + ". " + on(r)}
		}
	}
	return cause{delivery.Loading, message}
}

func olderReady(replicas []replica) int {
	n := 0
	for _, r := range replicas {
		if !r.current && isReady(r.pod) {
			n++
		}
	}
	return n
}

// on names a replica in words.
func on(r replica) string {
	if r.pod.Spec.NodeName == "" {
		return fmt.Sprintf("Pod %s: %s", r.pod.Name, r.cause.message)
	}
	return fmt.Sprintf("Pod %s on node %s: %s", r.pod.Name, r.pod.Spec.NodeName, r.cause.message)
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	if d == nil {
		return nil
	}
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
