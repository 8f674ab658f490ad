package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// newObject is the ModelService of a reservation as it is first made.
func newObject(d delivery.Desired, namespace string) *v1alpha1.ModelService {
	ms := &v1alpha1.ModelService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name}}
	write(ms, d, true)
	return ms
}

// write puts what delivery owns into an object: everything of the spec but the
// number of replicas, which is delivery's only where it cannot change by itself.
func write(ms *v1alpha1.ModelService, d delivery.Desired, replicas bool) {
	annotations := maps.Clone(ms.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationTenant] = d.Ref.Tenant
	annotations[v1alpha1.AnnotationID] = d.Ref.ID
	annotations[v1alpha1.AnnotationLedger] = d.Ledger
	annotations[v1alpha1.AnnotationGeneration] = strconv.FormatInt(d.Generation, 10)
	if d.JournalSeq > journalSeq(ms) {
		annotations[v1alpha1.AnnotationJournalSeq] = strconv.FormatInt(d.JournalSeq, 10)
	}
	ms.Annotations = annotations
	controllerutil.AddFinalizer(ms, v1alpha1.FinalizerLedger)

	keep := ms.Spec.Replicas
	ms.Spec = spec(d)
	if !replicas {
		ms.Spec.Replicas = keep
	}
}

func spec(d delivery.Desired) v1alpha1.ModelServiceSpec {
	m := d.Model
	return v1alpha1.ModelServiceSpec{
		Tenant: d.Ref.Tenant, RequestID: d.Ref.ID,
		Model: v1alpha1.Model{Name: m.Name, Version: m.Version, Source: m.Source},
		Class: string(m.Class), Workload: string(m.Workload),
		Engine: v1alpha1.Engine{
			Kind: string(m.Engine), Image: m.Image, Command: m.Command, Args: m.Args, Env: env(m.Env),
			Port: int32(m.Port), HealthPath: m.HealthPath, //nolint:gosec // modelspec bounds the port
		},
		GPU:      v1alpha1.GPU{MemoryMiB: m.GPUMemory, Count: int32(m.GPUs)}, //nolint:gosec // modelspec bounds it
		Replicas: int32(d.Funded),                                            //nolint:gosec // bounded by modelspec's replicas
		Scaling:  scaling(m),
		Traffic:  v1alpha1.Traffic{Weight: int32(m.Traffic.Weight)},                               //nolint:gosec // modelspec bounds it
		Cache:    v1alpha1.Cache{Enabled: m.Cache.Enabled, TTLSeconds: int32(m.Cache.TTLSeconds)}, //nolint:gosec // the API server bounds it
		ColdStart: v1alpha1.ColdStart{
			TimeoutSeconds: int32(m.ColdStart.TimeoutSeconds), MaxWaiting: int32(m.ColdStart.MaxWaiting), //nolint:gosec // modelspec bounds both
		},
		Budget: v1alpha1.Budget{FundedReplicas: int32(d.Funded)}, //nolint:gosec // bounded by modelspec's replicas
	}
}

// env is sorted, so that the same environment is the same object.
func env(vars map[string]string) []v1alpha1.EnvVar {
	var out []v1alpha1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, v1alpha1.EnvVar{Name: name, Value: vars[name]})
	}
	return out
}

// refOf is the reservation that an object says it belongs to.
func refOf(o metav1.Object) budget.Ref {
	a := o.GetAnnotations()
	return budget.Ref{Tenant: a[v1alpha1.AnnotationTenant], ID: a[v1alpha1.AnnotationID]}
}

func ledgerOf(o metav1.Object) string { return o.GetAnnotations()[v1alpha1.AnnotationLedger] }

// owned reports whether an object is a ledger's: by its annotations, by what
// it runs for, and by its name. Everybody else's is left untouched.
func owned(ms *v1alpha1.ModelService, ledger string) bool {
	ref := refOf(ms)
	return ledgerOf(ms) == ledger && ms.Name == delivery.ObjectName(ref) &&
		ms.Spec.Tenant == ref.Tenant && ms.Spec.RequestID == ref.ID
}

func identity(ms *v1alpha1.ModelService) budget.Object {
	return budget.Object{Namespace: ms.Namespace, Name: ms.Name, UID: string(ms.UID)}
}

// generation is the ledger's, as it stands on an object; 0 if it is unreadable.
func generation(ms *v1alpha1.ModelService) int64 { return number(ms, v1alpha1.AnnotationGeneration) }

// journalSeq is the ledger's at the latest delivery.
func journalSeq(ms *v1alpha1.ModelService) int64 { return number(ms, v1alpha1.AnnotationJournalSeq) }

func number(ms *v1alpha1.ModelService, annotation string) int64 {
	n, err := strconv.ParseInt(ms.Annotations[annotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// carried is the UID of the ModelService that a child was made for; empty if
// it does not say so.
func carried(o metav1.Object) types.UID {
	if uid := o.GetAnnotations()[v1alpha1.AnnotationObjectUID]; uid != "" {
		return types.UID(uid)
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "ModelService" {
			return owner.UID
		}
	}
	return ""
}

func describe(ms *v1alpha1.ModelService) string {
	if ref := refOf(ms); ref.ID != "" {
		return fmt.Sprintf("request %s of tenant %s in ledger %s", ref.ID, ref.Tenant, ledgerOf(ms))
	}
	return "no request of any ledger"
}
