package operator

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// cause is why something is as it is: a reason of the closed list, and words
// with figures.
type cause struct {
	reason  delivery.Reason
	message string
}

// podCause names the first thing that keeps a Pod from serving, in the order
// of a Pod's life: a Pod without a node has no image yet, one without an image
// no engine.
func podCause(p *corev1.Pod, before *v1alpha1.PodStatus, now time.Time, stuckAfter time.Duration) cause {
	switch {
	case terminating(p):
		return endingCause(p, now, stuckAfter)
	case finished(p):
		return cause{delivery.Crashed, fmt.Sprintf("it ended as %s: %s", p.Status.Phase, said(p.Status.Reason, p.Status.Message))}
	case isReady(p):
		return cause{delivery.Available, ""}
	case p.Spec.NodeName == "":
		return placementCause(p)
	}
	engine := engineStatus(p)
	if engine == nil {
		return cause{delivery.Loading, "node " + p.Spec.NodeName + " has not started it yet"}
	}
	if c, found := waitingCause(p, engine, before); found {
		return c
	}
	if ended := lastEnd(engine); ended != nil {
		return failureCause(p, engine, ended, before)
	}
	if wasReady(p, before) {
		return cause{delivery.Loading, "it was ready and does not answer its health check now" + readyNote(p)}
	}
	return cause{delivery.Loading, "the engine runs and does not answer its health check yet" + readyNote(p)}
}

func endingCause(p *corev1.Pod, now time.Time, stuckAfter time.Duration) cause {
	ends := p.DeletionTimestamp.Time // its grace period included
	if now.Before(ends.Add(stuckAfter)) {
		return cause{delivery.Draining, "it serves its last streams until " + ends.UTC().Format(time.RFC3339)}
	}
	where := "it was on no node: a finalizer keeps it"
	if p.Spec.NodeName != "" {
		where = fmt.Sprintf("see whether node %s still runs; a node that is gone for good must be deleted, or the Pod by force", p.Spec.NodeName)
	}
	return cause{delivery.ReleaseBlocked, fmt.Sprintf("it should have ended by %s and is still there: %s", ends.UTC().Format(time.RFC3339), where)}
}

// placementCause tells memory of cards, which another release frees, from
// everything else that keeps a Pod off the nodes.
func placementCause(p *corev1.Pod) cause {
	c := podCondition(p, corev1.PodScheduled)
	if c == nil || c.Status == corev1.ConditionTrue {
		return cause{delivery.WaitingForNode, "no scheduler has looked at it yet; it asks for " + schedulerOf(p)}
	}
	if c.Reason == corev1.PodReasonSchedulerError {
		return cause{delivery.WaitingForNode, said(c.Reason, c.Message)}
	}
	words := strings.ToLower(c.Message)
	for _, card := range []string{"fragment", "gpu", "card ", "cannot allocate all claims"} {
		if strings.Contains(words, card) {
			return cause{delivery.NoFragmentFits, c.Message}
		}
	}
	return cause{delivery.WaitingForNode, said(c.Reason, c.Message)}
}

func schedulerOf(p *corev1.Pod) string {
	if p.Spec.SchedulerName == "" {
		return corev1.DefaultSchedulerName
	}
	return p.Spec.SchedulerName
}

func waitingCause(p *corev1.Pod, engine *corev1.ContainerStatus, before *v1alpha1.PodStatus) (cause, bool) {
	w := engine.State.Waiting
	if w == nil {
		return cause{}, false
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return cause{delivery.ImagePullFailed, fmt.Sprintf("image %s: %s", engine.Image, said(w.Reason, w.Message))}, true
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError":
		return cause{delivery.ModelLoadFailed, said(w.Reason, w.Message)}, true
	}
	if ended := lastEnd(engine); ended != nil {
		return failureCause(p, engine, ended, before), true
	}
	return cause{delivery.Loading, "its container is being made: " + said(w.Reason, w.Message)}, true
}

// failureCause judges an engine that ended: one that never served could not
// load its model; one that did crashed, and loops once it did so again.
func failureCause(p *corev1.Pod, engine *corev1.ContainerStatus, ended *corev1.ContainerStateTerminated, before *v1alpha1.PodStatus) cause {
	message := fmt.Sprintf("the engine ended with exit code %d (%s), %d restarts so far", ended.ExitCode, ended.Reason, engine.RestartCount)
	if lines := lastLines(ended.Message); lines != "" {
		message += ": " + lines
	}
	switch {
	case !wasReady(p, before):
		return cause{delivery.ModelLoadFailed, message}
	case engine.RestartCount > 1 || looping(engine):
		return cause{delivery.CrashLooping, message}
	}
	return cause{delivery.Crashed, message}
}

func looping(engine *corev1.ContainerStatus) bool {
	return engine.State.Waiting != nil && engine.State.Waiting.Reason == "CrashLoopBackOff"
}

// kubeletPause is more than lies between a Pod's start and its first condition.
const kubeletPause = 2 * time.Second

// wasReady reports whether a Pod answers its health check, or ever did. The
// status before tells, or the Pod itself, which may have been ready when nobody
// looked: its Ready condition changes when it starts and then only from or to
// ready.
func wasReady(p *corev1.Pod, before *v1alpha1.PodStatus) bool {
	if isReady(p) || (before != nil && before.EverReady) {
		return true
	}
	c := podCondition(p, corev1.PodReady)
	if c == nil || p.Status.StartTime == nil {
		return false
	}
	return c.LastTransitionTime.After(p.Status.StartTime.Add(kubeletPause))
}

func engineStatus(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == engineContainer {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// lastEnd is how the engine's last finished run ended, if one did.
func lastEnd(engine *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if engine.State.Terminated != nil {
		return engine.State.Terminated
	}
	return engine.LastTerminationState.Terminated
}

// readyNote repeats what the Ready condition says beyond the obvious, for
// example that the node is not reachable.
func readyNote(p *corev1.Pod) string {
	c := podCondition(p, corev1.PodReady)
	if c == nil || c.Reason == "" || c.Reason == "ContainersNotReady" {
		return ""
	}
	return " (" + said(c.Reason, c.Message) + ")"
}

func said(reason, message string) string {
	switch {
	case message == "":
		return reason
	case reason == "" || strings.HasPrefix(message, reason):
		return message
	}
	return reason + ": " + message
}

// Bounds of an engine's output in a status.
const (
	mostLines = 20
	mostBytes = 2048
)

// lastLines cuts output to its end, where the reason usually stands.
func lastLines(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "?")
	lines := strings.Split(s, "\n")
	s = strings.Join(lines[max(0, len(lines)-mostLines):], "\n")
	if len(s) > mostBytes {
		s = "…" + strings.ToValidUTF8(s[len(s)-mostBytes:], "")
	}
	return s
}

// newer reports whether f takes the place of the failure known so far. Times
// are in seconds, so a Pod's own later failure may have the same.
func newer(f, known *v1alpha1.Failure) bool {
	switch {
	case f == nil:
		return false
	case known == nil || known.At.Before(&f.At):
		return true
	}
	return known.Pod == f.Pod && known.At.Equal(&f.At) && (known.ExitCode != f.ExitCode || known.Message != f.Message)
}

// failureOf is the last failure of a Pod, if its engine ended at all.
func failureOf(p *corev1.Pod, c cause) *v1alpha1.Failure {
	engine := engineStatus(p)
	if engine == nil || terminating(p) {
		return nil // it was asked to end
	}
	ended := lastEnd(engine)
	if ended == nil {
		return nil
	}
	reason := c.reason
	if reason == delivery.Available { // it serves again
		reason = delivery.Crashed
	}
	message := lastLines(ended.Message)
	if message == "" {
		message = fmt.Sprintf("%s with exit code %d and no output", ended.Reason, ended.ExitCode)
	}
	return &v1alpha1.Failure{
		Reason: string(reason), Message: message, Pod: p.Name,
		At: metav1.NewTime(ended.FinishedAt.Truncate(time.Second)), ExitCode: ended.ExitCode,
	}
}
