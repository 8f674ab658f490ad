package kube

import (
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// replica is what a Pod shows of itself, and what the operator says of it in
// the object's status; ms may be nil.
func replica(pod *corev1.Pod, ms *v1alpha1.ModelService) delivery.Replica {
	r := delivery.Replica{
		Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Cards: cards(pod, ms),
		Address: address(pod), Upstream: upstream(pod), Untracked: asksForNoCard(pod), CreatedAt: pod.CreationTimestamp.Time,
		PlacedAt: since(pod, corev1.PodScheduled), ReadyAt: since(pod, corev1.PodReady),
	}
	main := engineStatus(pod)
	if main != nil {
		r.Restarts = int(main.RestartCount)
		if main.State.Running != nil {
			r.StartedAt = main.State.Running.StartedAt.Time
		}
	}
	r.Phase, r.Reason, r.Message = phase(pod, main)
	r.EverReady = r.Phase == delivery.PhaseReady
	if said := said(pod, ms); said != nil {
		r.Engine = said.Engine
		r.EverReady = r.EverReady || said.EverReady
		if said.Reason != "" && r.Phase != delivery.PhaseReady && r.Phase != delivery.PhaseTerminating {
			r.Reason, r.Message = delivery.Reason(said.Reason), said.Message
		}
	}
	return r
}

// said is the operator's view of a Pod.
func said(pod *corev1.Pod, ms *v1alpha1.ModelService) *v1alpha1.PodStatus {
	if ms == nil {
		return nil
	}
	i := slices.IndexFunc(ms.Status.Pods, func(p v1alpha1.PodStatus) bool { return p.UID == string(pod.UID) })
	if i < 0 {
		return nil
	}
	return &ms.Status.Pods[i]
}

// phase tells where a Pod is in its life, and what keeps it there.
func phase(pod *corev1.Pod, main *corev1.ContainerStatus) (delivery.Phase, delivery.Reason, string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return delivery.PhaseTerminating, delivery.Draining, ""
	case condition(pod, corev1.PodReady) == corev1.ConditionTrue:
		return delivery.PhaseReady, delivery.Available, ""
	case pod.Spec.NodeName == "":
		return delivery.PhasePending, delivery.WaitingForNode, message(pod, corev1.PodScheduled)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return delivery.PhaseBackoff, delivery.CrashLooping, pod.Status.Message
	case main == nil:
		return delivery.PhaseStarting, delivery.Loading, ""
	case main.State.Running != nil:
		return delivery.PhaseLoading, delivery.Loading, message(pod, corev1.PodReady)
	case main.State.Terminated != nil:
		return delivery.PhaseBackoff, delivery.Loading, main.State.Terminated.Message
	}
	if w := main.State.Waiting; w != nil {
		switch w.Reason {
		case "CrashLoopBackOff":
			return delivery.PhaseBackoff, delivery.CrashLooping, w.Message
		case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull":
			return delivery.PhaseBackoff, delivery.ImagePullFailed, w.Message
		}
	}
	return delivery.PhaseStarting, delivery.Loading, ""
}

// engineStatus is the state of the engine's container.
func engineStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	all := pod.Status.ContainerStatuses
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == engineContainer(pod).Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// engineContainer is the one that runs the model.
func engineContainer(pod *corev1.Pod) corev1.Container {
	for _, c := range pod.Spec.Containers {
		if c.Name == v1alpha1.ContainerName {
			return c
		}
	}
	if len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0]
	}
	return corev1.Container{}
}

func address(pod *corev1.Pod) string {
	if pod.Status.PodIP == "" {
		return ""
	}
	ports := engineContainer(pod).Ports
	for _, p := range ports {
		if p.Name == v1alpha1.PortName || len(ports) == 1 {
			return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.ContainerPort)))
		}
	}
	return ""
}

func upstream(pod *corev1.Pod) string {
	if name := pod.Annotations[v1alpha1.AnnotationUpstream]; name != "" {
		return name
	}
	return pod.Annotations[v1alpha1.AnnotationModel]
}

func find(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	if c := find(pod, kind); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

func message(pod *corev1.Pod, kind corev1.PodConditionType) string {
	if c := find(pod, kind); c != nil {
		return c.Message
	}
	return ""
}

// since is when a condition became true; zero if it is not.
func since(pod *corev1.Pod, kind corev1.PodConditionType) time.Time {
	if c := find(pod, kind); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
