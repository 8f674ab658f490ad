package kube

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// Logs returns the engine's output of one replica: a Pod's full name or its
// end, or, if empty, the oldest Pod that is not going away. The last tail
// lines (0: all that is kept), and with follow everything until ctx ends or
// the container does. *delivery.UnknownReplicaError if there is no such Pod.
func (t *Target) Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	pod, err := t.logged(ctx, ref, replica)
	if err != nil {
		return nil, err
	}
	if !ever(engineStatus(pod)) {
		return nothingYet(pod), nil
	}
	opts := &corev1.PodLogOptions{Container: engineContainer(pod).Name, Follow: follow}
	if tail > 0 {
		lines := int64(tail)
		opts.TailLines = &lines
	}
	out, err := t.logs.Pods(pod.Namespace).GetLogs(pod.Name, opts).Stream(ctx)
	if apierrors.IsBadRequest(err) { // there is no container to read from
		return nothingYet(pod), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return out, nil
}

// ever reports whether a container has run, now or before.
func ever(c *corev1.ContainerStatus) bool {
	return c != nil && (c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil)
}

// nothingYet says why there is no output.
func nothingYet(pod *corev1.Pod) io.ReadCloser {
	state, reason, text := phase(pod, engineStatus(pod))
	note := fmt.Sprintf("no output yet: Pod %s is %s (%s) %s", pod.Name, state, reason, text)
	return io.NopCloser(strings.NewReader(strings.TrimSpace(note) + "\n"))
}

// logged finds the Pod whose output is asked for.
func (t *Target) logged(ctx context.Context, ref budget.Ref, replica string) (*corev1.Pod, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key, _ := t.where(ref)
	pods, err := t.livePods(ctx, key)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return refOf(p) != ref || ledgerOf(p) != t.cfg.Ledger })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(going(a)-going(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var names []string
	for _, p := range pods {
		if replica == "" || p.Name == replica || strings.HasSuffix(p.Name, "-"+replica) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, &delivery.UnknownReplicaError{Ref: ref, Replica: replica, Existing: names}
}

func going(p *corev1.Pod) int {
	if p.DeletionTimestamp != nil {
		return 1
	}
	return 0
}
