package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// reconciler reads, acts and reports; what to do and what is true is decided
// by Plan and Judge. It never sleeps.
type reconciler struct {
	client client.Client // reads from the watched caches
	live   client.Reader // reads from the API server
	events recorder.EventRecorder
	opts   Options
	memory *memory
}

// conflictPoll is how often a taken name is looked at again: somebody else's
// object is not watched.
const conflictPoll = 10 * time.Second

// soon is when to look again after a write that came too early or too late.
const soon = 200 * time.Millisecond

// Reconcile brings one ModelService a step nearer to what it declares.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// 1. See what is there.
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if o.Object == nil || (terminating(o.Object) && !controllerutil.ContainsFinalizer(o.Object, v1alpha1.FinalizerLedger)) {
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if r.opts.LedgerLetsGo && !accounted(o.Object) && !terminating(o.Object) {
		return reconcile.Result{}, nil // nobody pays for it
	}
	// 2. Decide.
	view, err := r.decide(o)
	if err != nil {
		return reconcile.Result{}, err
	}
	// 3. Act.
	failed := r.act(ctx, o.Object, view.Steps.Actions)
	if apierrors.IsAlreadyExists(failed) {
		r.memory.take(req.NamespacedName)
	}
	view.Written, view.Trouble = failed == nil, troubleOf(failed, view.Trouble)
	if failed == nil && last(view.Steps.Actions) == RemoveFinalizer {
		return reconcile.Result{}, nil // the object is gone
	}
	// 4. Report, once; progress only if nothing better comes soon.
	st := Judge(view)
	calm := !slices.ContainsFunc(o.Pods, func(p corev1.Pod) bool { return isReady(&p) })
	if wait := r.memory.hold(req.NamespacedName, failed == nil && onTheWay(o.Object.Status, st), calm, o.Now); wait > 0 {
		return reconcile.Result{RequeueAfter: min(wait, r.opts.Resync)}, nil
	}
	if err := r.report(ctx, o.Object, st); err != nil {
		failed = errors.Join(failed, err)
	}
	return r.next(view, failed)
}

// accounted reports whether an object claims a reservation of some ledger in the
// way that delivery writes it. Where ledgers let objects go, none would let go
// of another one, and none has slots for what it would run: it is left as it is.
func accounted(m *v1alpha1.ModelService) bool {
	ref := budget.Ref{Tenant: m.Annotations[v1alpha1.AnnotationTenant], ID: m.Annotations[v1alpha1.AnnotationID]}
	return m.Annotations[v1alpha1.AnnotationLedger] != "" && m.Name == delivery.ObjectName(ref) && m.Spec.Tenant == ref.Tenant && m.Spec.RequestID == ref.ID
}

// decide makes the plan. An object that asks for what no cluster of this
// operator can run is stalled until it is changed; it can still be released.
func (r *reconciler) decide(o Observed) (View, error) {
	view := View{Observed: o, GPU: r.opts.GPU.Mode, StuckAfter: r.opts.StuckAfter}
	var declared Declared
	if !terminating(o.Object) {
		var err error
		if declared, err = Build(o.Object, r.opts); err != nil {
			view.Trouble = &Trouble{Reason: delivery.ModelLoadFailed, Message: err.Error(), Stalled: true}
		}
	}
	steps, err := Plan(declared, o)
	if err != nil {
		return View{}, err
	}
	if r.opts.LedgerLetsGo && accounted(o.Object) && last(steps.Actions) == RemoveFinalizer {
		steps = Steps{Waiting: "nothing that carried its UID is left; the ledger lets it go"}
	}
	view.Steps = steps
	return view, nil
}

// troubleOf tells which failures the object's reader must hear of: a refusal
// is news, a conflict or an API server that is away is not.
func troubleOf(failed error, known *Trouble) *Trouble {
	switch {
	case failed == nil:
		return known
	case apierrors.IsInvalid(failed), apierrors.IsBadRequest(failed):
		return &Trouble{Reason: delivery.ReplicaFailure, Message: "the API server refuses the children: " + failed.Error(), Stalled: true}
	case apierrors.IsForbidden(failed), apierrors.IsRequestEntityTooLargeError(failed):
		return &Trouble{Reason: delivery.ReplicaFailure, Message: "the cluster refuses the children: " + failed.Error()}
	}
	return known
}

// next says what comes after this round: at once again, after a wait, or at
// the next resync.
func (r *reconciler) next(v View, failed error) (reconcile.Result, error) {
	switch {
	case failed != nil && tooEarly(failed):
		return reconcile.Result{RequeueAfter: soon}, nil // wait: the cache will have caught up
	case failed != nil && v.Trouble != nil && v.Trouble.Stalled:
		return reconcile.Result{RequeueAfter: r.opts.Resync}, nil // stalled: the status says why
	case failed != nil:
		return reconcile.Result{}, failed // retry, with growing pauses
	case len(v.Steps.Conflicts) > 0:
		return reconcile.Result{RequeueAfter: min(conflictPoll, r.opts.Resync)}, nil
	}
	return reconcile.Result{RequeueAfter: r.opts.Resync}, nil
}

// tooEarly reports a write that was decided on an older state than the API
// server has.
func tooEarly(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// report writes the status if it says something new, and makes an event of
// what a person should see.
func (r *reconciler) report(ctx context.Context, m *v1alpha1.ModelService, st v1alpha1.ModelServiceStatus) error {
	if equality.Semantic.DeepEqual(m.Status, st) {
		return nil
	}
	changed := m.DeepCopy()
	changed.Status = st
	patch, err := statusPatch(m, changed)
	if err != nil {
		return fmt.Errorf("compare the status of %s/%s: %w", m.Namespace, m.Name, err)
	}
	err = r.client.Status().Patch(ctx, changed, patch, client.FieldOwner(FieldManager))
	if apierrors.IsNotFound(err) {
		return nil // released meanwhile
	}
	if err != nil {
		return fmt.Errorf("write the status of %s/%s: %w", m.Namespace, m.Name, err)
	}
	r.memory.written(client.ObjectKeyFromObject(m), m.ResourceVersion, changed)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionOwnershipConflict, v1alpha1.ConditionAutoscalerConflict, v1alpha1.ConditionStalled} {
		r.announce(m, meta.FindStatusCondition(m.Status.Conditions, kind), meta.FindStatusCondition(st.Conditions, kind))
	}
	return nil
}

// statusPatch holds what changed, and the counts always: a new object has no
// status at all, and one without them is invalid, zero or not.
func statusPatch(from, to *v1alpha1.ModelService) (client.Patch, error) {
	text, err := client.MergeFrom(from).Data(to)
	if err != nil {
		return nil, err
	}
	var patch struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, err
	}
	if patch.Status == nil {
		patch.Status = map[string]any{}
	}
	patch.Status["replicas"], patch.Status["readyReplicas"] = to.Status.Replicas, to.Status.ReadyReplicas
	text, err = json.Marshal(patch)
	return client.RawPatch(types.MergePatchType, text), err
}

// mostNote is the longest text that an event may have.
const mostNote = 1000

// announce makes an event of a condition that turned. The first status of a
// new object is no news, and neither is that it started as it should: that it
// is Ready, and since when, is in its status.
func (r *reconciler) announce(m *v1alpha1.ModelService, before, after *metav1.Condition) {
	if after == nil || (before == nil && after.Status != metav1.ConditionTrue) || (before != nil && before.Status == after.Status) {
		return
	}
	good := (after.Type == v1alpha1.ConditionReady) == (after.Status == metav1.ConditionTrue)
	if good && (after.Type != v1alpha1.ConditionReady || before == nil || onlyProgress(before.Reason)) {
		return // a trouble that ended shows in Ready
	}
	kind := "Warning"
	if good {
		kind = "Normal"
	}
	note := after.Message
	if len(note) > mostNote {
		note = note[:mostNote]
	}
	r.events.Eventf(m, nil, kind, after.Reason, after.Type, "%s", note)
}

func last(actions []Action) Verb {
	if len(actions) == 0 {
		return ""
	}
	return actions[len(actions)-1].Verb
}
