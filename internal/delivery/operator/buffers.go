package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

// Buffer is room for so many replicas of one size, kept by Pods that do
// nothing and that any other Pod displaces. Where no node has the room, they
// wait, and whoever brings nodes sees why.
type Buffer struct {
	Pool, Class string
	Count       int
	GPU         v1alpha1.GPU
}

// BufferOptions say how these Pods are made.
type BufferOptions struct {
	Client        client.Client
	Namespace     string // of the models
	Ledger        string // its incarnation: what another one keeps is left alone
	Image         string // of a program that waits
	PriorityClass string // below that of every other Pod
	GPU           GPU
	Logger        *slog.Logger
}

// Buffers keeps them, one Deployment for each pool and class.
type Buffers struct{ o BufferOptions }

// NewBuffers fails where displaced Pods give no card back in time: schedulers
// displace no Pod for the sake of a resource claim.
func NewBuffers(o BufferOptions) (*Buffers, error) {
	o.GPU = o.GPU.withDefaults()
	if o.GPU.Mode != GPUDevicePlugin {
		return nil, fmt.Errorf("operator: room cannot be kept with GPU mode %q; it needs %q", o.GPU.Mode, GPUDevicePlugin)
	}
	return &Buffers{o}, nil
}

// bufferPatience is how long a Pod of a buffer may take to end: it does nothing.
const bufferPatience int64 = 0

// Keep makes the buffers what is wanted, takes those away that are not named,
// and tells how many Pods of each hold cards. With nothing to change it writes
// nothing.
func (b *Buffers) Keep(ctx context.Context, want []Buffer) ([]int, error) {
	var there appsv1.DeploymentList
	if err := b.o.Client.List(ctx, &there, client.InNamespace(b.o.Namespace), client.HasLabels{v1alpha1.LabelBuffer}); err != nil {
		return nil, fmt.Errorf("list the Deployments that keep room: %w", err)
	}
	left := map[string]*appsv1.Deployment{}
	for i := range there.Items {
		if d := &there.Items[i]; d.Annotations[v1alpha1.AnnotationLedger] == b.o.Ledger {
			left[d.Name] = d
		}
	}
	have := make([]int, len(want))
	for i, w := range want {
		if w.Count == 0 {
			continue
		}
		name := b.name(w)
		if err := b.put(ctx, name, w, left[name]); err != nil {
			return nil, fmt.Errorf("keep room for %d replicas of class %s in pool %s by Deployment %s/%s: %w", w.Count, w.Class, w.Pool, b.o.Namespace, name, err)
		}
		delete(left, name)
		var err error
		if have[i], err = b.placed(ctx, name); err != nil {
			return nil, err
		}
	}
	for name, d := range left {
		err := b.o.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("take away Deployment %s/%s, which keeps room that nobody wants: %w", b.o.Namespace, name, err)
		}
	}
	return have, nil
}

// name is a function of ledger, pool and class.
func (b *Buffers) name(w Buffer) string {
	sum := sha256.Sum256([]byte(b.o.Ledger + "\x00" + w.Pool + "\x00" + w.Class))
	return "buffer-" + w.Class + "-" + hex.EncodeToString(sum[:])[:16]
}

// put creates the Deployment or changes it. d is ours as it is, nil if it is
// not there.
func (b *Buffers) put(ctx context.Context, name string, w Buffer, d *appsv1.Deployment) error {
	declared := b.declare(name, w)
	text, err := json.Marshal(declared)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:])
	declared.WithAnnotations(map[string]string{annotationDeclared: hash})
	if d == nil {
		return b.create(ctx, declared)
	}
	b.complain(d)
	if d.Annotations[annotationDeclared] == hash && d.Spec.Replicas != nil && int(*d.Spec.Replicas) == w.Count {
		return nil
	}
	declared.WithUID(d.UID) // of another object of this name it is refused
	return b.o.Client.Apply(ctx, declared, client.ForceOwnership, client.FieldOwner(FieldManager))
}

// create makes it anew, and never takes over what somebody else made.
func (b *Buffers) create(ctx context.Context, declared *appsv1ac.DeploymentApplyConfiguration) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(declared)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	err = b.o.Client.Create(ctx, &unstructured.Unstructured{Object: fields}, client.FieldOwner(FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("one is there that is not ours (label %s, annotation %s): rename or remove it: %w", v1alpha1.LabelBuffer, v1alpha1.AnnotationLedger, err)
	}
	return err
}

// complain tells why Pods are not made, which nothing else would.
func (b *Buffers) complain(d *appsv1.Deployment) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			b.o.Logger.Warn("room is not kept: its Pods cannot be made", "deployment", d.Name, "reason", c.Reason, "message", c.Message)
		}
	}
}

// placed counts the Pods that hold cards.
func (b *Buffers) placed(ctx context.Context, name string) (int, error) {
	var pods corev1.PodList
	if err := b.o.Client.List(ctx, &pods, client.InNamespace(b.o.Namespace), client.MatchingLabels{v1alpha1.LabelBuffer: name}); err != nil {
		return 0, fmt.Errorf("list the Pods that keep room: %w", err)
	}
	n := 0
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" && p.DeletionTimestamp.IsZero() && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			n++
		}
	}
	return n, nil
}

func (b *Buffers) declare(name string, w Buffer) *appsv1ac.DeploymentApplyConfiguration {
	// It asks for what a replica of the class would.
	like := &v1alpha1.ModelService{Spec: v1alpha1.ModelServiceSpec{GPU: w.GPU, Class: w.Class}}
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelBuffer: name}
	says := map[string]string{v1alpha1.AnnotationLedger: b.o.Ledger, v1alpha1.AnnotationBuffer: w.Pool + "/" + w.Class}
	pod := corev1ac.PodSpec().
		WithPriorityClassName(b.o.PriorityClass).
		WithTerminationGracePeriodSeconds(bufferPatience).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(runAs).WithRunAsGroup(runAs).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(corev1ac.Container().WithName("room").WithImage(b.o.Image).WithEnv(b.o.GPU.env()...).
			WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
				WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
			WithResources(corev1ac.ResourceRequirements().WithLimits(b.o.GPU.limits(w.GPU))))
	if b.o.GPU.SchedulerName != "" {
		pod.WithSchedulerName(b.o.GPU.SchedulerName)
	}
	return appsv1ac.Deployment(name, b.o.Namespace).WithLabels(labels).WithAnnotations(says).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(int32(w.Count)). //nolint:gosec // modelspec bounds it
			WithRevisionHistoryLimit(0).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{v1alpha1.LabelBuffer: name})).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
				WithAnnotations(merged(says, b.o.GPU.annotations(like))).
				WithSpec(pod)))
}
