//go:build cluster

package operator_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

const node = "node-1"

// living returns the Pods of a ModelService that are not going away, once
// there are n.
func (w *world) living(name string, n int) []corev1.Pod {
	w.t.Helper()
	var out []corev1.Pod
	w.eventually(fmt.Sprintf("%d Pods of %s", n, name), func() string {
		out = nil
		for _, p := range w.pods(name) {
			if p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
		if len(out) != n {
			return fmt.Sprintf("there are %d", len(out))
		}
		return ""
	})
	return out
}

func (w *world) pods(name string) []corev1.Pod {
	w.t.Helper()
	list := &corev1.PodList{}
	w.must(w.List(w.ctx, list, client.InNamespace(w.ns), client.MatchingLabels{v1alpha1.LabelModelService: name}))
	return list.Items
}

// bind does what a scheduler does.
func (w *world) bind(p *corev1.Pod) {
	w.t.Helper()
	w.must(w.SubResource("binding").Create(w.ctx, p, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}))
	w.must(w.Get(w.ctx, client.ObjectKeyFromObject(p), p))
}

// tell sets a Pod's status as a kubelet does.
func (w *world) tell(p *corev1.Pod, ready bool, engine corev1.ContainerStatus) {
	w.t.Helper()
	now := metav1.Now()
	if p.Status.StartTime == nil {
		p.Status.StartTime = &now
	}
	engine.Name, engine.Image, engine.Ready = "engine", p.Spec.Containers[0].Image, ready
	p.Status.Phase = corev1.PodRunning
	p.Status.PodIP, p.Status.PodIPs = "192.0.2.1", []corev1.PodIP{{IP: "192.0.2.1"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{engine}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setPodCondition(p, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: now})
	}
	w.must(w.Status().Update(w.ctx, p))
}

func setPodCondition(p *corev1.Pod, c corev1.PodCondition) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == c.Type {
			if p.Status.Conditions[i].Status != c.Status {
				p.Status.Conditions[i] = c
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

func running() corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}
}

// ended is an engine that failed and is in its back-off.
func ended(restarts int32, code int32, lines string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		RestartCount: restarts,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: lines, StartedAt: metav1.NewTime(time.Now().Add(-time.Second)), FinishedAt: metav1.Now(),
		}},
	}
}

// serve brings n Pods of a ModelService onto the node and makes them ready.
func (w *world) serve(name string, n int) []corev1.Pod {
	w.t.Helper()
	pods := w.living(name, n)
	for i := range pods {
		if pods[i].Spec.NodeName == "" {
			w.bind(&pods[i])
		}
		w.tell(&pods[i], true, running())
	}
	return pods
}

// end does what a kubelet does when a Pod's last container has ended.
func (w *world) end(p *corev1.Pod) {
	w.t.Helper()
	w.must(client.IgnoreNotFound(w.Delete(w.ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})))
}
