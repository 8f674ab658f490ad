package operator

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"modeldock.io/api/v1alpha1"
)

// Verb of an Action.
type Verb string

// The verbs.
const (
	AddFinalizer    Verb = "AddFinalizer"
	Create          Verb = "Create" // fails where the name is taken
	Apply           Verb = "Apply"  // to the child with UID alone
	Scale           Verb = "Scale"  // the same
	Delete          Verb = "Delete" // the same
	RemoveFinalizer Verb = "RemoveFinalizer"
)

// Kinds of what actions change.
const (
	kindDeployment = "Deployment"
	kindService    = "Service"
	kindReplicaSet = "ReplicaSet"
	kindPod        = "Pod"

	kindClaimTemplate = "ResourceClaimTemplate"
	kindClaim         = "ResourceClaim"
)

// Action is one write. Every action may be repeated.
type Action struct {
	Verb     Verb
	Kind     string
	Name     string
	UID      types.UID
	Declare  map[string]any // Create, Apply
	Replicas int32          // Scale
	Why      string
}

func (a Action) String() string {
	return fmt.Sprintf("%s %s %s (%s)", a.Verb, a.Kind, a.Name, a.Why)
}

// Steps is what Plan decided.
type Steps struct {
	Actions   []Action
	Conflicts []Conflict // names that others' objects have
	// Waiting says what a deletion still waits for; empty: nothing.
	Waiting string
}

// Plan compares what should be there with what is and returns the writes that
// lead there, in order. With nothing to change it returns none. A child of
// somebody else is never the subject of an action. An empty Declared means that
// the children of this object cannot be declared.
func Plan(d Declared, o Observed) (Steps, error) {
	if terminating(o.Object) {
		return planRelease(o), nil
	}
	var s Steps
	if !controllerutil.ContainsFinalizer(o.Object, v1alpha1.FinalizerLedger) {
		s.Actions = append(s.Actions, Action{
			Verb: AddFinalizer, Kind: kindModelService, Name: o.Object.Name, UID: o.Object.UID,
			Why: "the slots come back only after the last Pod is gone",
		})
	}
	if d.Deployment == nil {
		return s.shrink(o), nil
	}
	// Pods are not made without what their claims are made from.
	if s.planTemplates(d, o); len(s.Conflicts) > 0 {
		return s, nil // they would claim by somebody else's
	}
	// The Service goes first once there are addresses: the first ready Pod then
	// has its endpoint at once.
	if o.Service != nil || o.addressed() {
		if err := s.child(o.Object, kindService, d.Service, childOf(o.Service)); err != nil {
			return Steps{}, err
		}
	}
	if err := s.child(o.Object, kindDeployment, d.Deployment, childOf(o.Deployment)); err != nil {
		return Steps{}, err
	}
	if err := s.autoscaler(d, o); err != nil {
		return Steps{}, err
	}
	return s, nil
}

// shrink is all that can be done for an object whose children cannot be
// declared: what runs of an earlier declaration is left, but never more of it
// than is wanted and funded.
func (s Steps) shrink(o Observed) Steps {
	d, running := o.Deployment, Running(o.Object)
	if d == nil || conflictOf(o.Object, kindDeployment, d) != nil || terminating(d) || d.Spec.Replicas == nil || *d.Spec.Replicas <= running {
		return s
	}
	s.Actions = append(s.Actions, Action{
		Verb: Scale, Kind: kindDeployment, Name: d.Name, UID: d.UID, Replicas: running,
		Why: fmt.Sprintf("%d run and only %d are wanted and funded", *d.Spec.Replicas, running),
	})
	return s
}

// child is a live object, or nil.
type child interface {
	metav1.Object
	runtime.Object
}

func childOf[T any, P interface {
	*T
	child
}](p P) child {
	if p == nil {
		return nil
	}
	return p
}

func (s *Steps) child(m *v1alpha1.ModelService, kind string, declare map[string]any, live child) error {
	a := Action{Kind: kind, Name: m.Name, Declare: declare}
	if live == nil {
		a.Verb, a.Why = Create, "it is not there"
		s.Actions = append(s.Actions, a)
		return nil
	}
	if c := conflictOf(m, kind, live); c != nil {
		s.Conflicts = append(s.Conflicts, *c)
		return nil
	}
	if terminating(live) {
		s.Waiting = fmt.Sprintf("%s %s was deleted and is still going away; it will be created again", kind, m.Name)
		return nil
	}
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return fmt.Errorf("compare %s %s with its declaration: %w", kind, m.Name, err)
	}
	if kind == kindDeployment {
		a.Declare = keepStrategy(declare, have)
	}
	at := drift(a.Declare, have)
	if at == "" {
		return nil
	}
	a.Verb, a.UID, a.Why = Apply, live.GetUID(), at+" is not as declared"
	s.Actions = append(s.Actions, a)
	return nil
}

// keepStrategy keeps the rollout strategy that a Deployment has while its Pods
// stay as they are. Whether a card is spare changes all the time, and matters
// only when a rollout begins.
func keepStrategy(declare, live map[string]any) map[string]any {
	spec, _ := declare["spec"].(map[string]any)
	liveSpec, _ := live["spec"].(map[string]any)
	if spec == nil || liveSpec == nil || differs(spec["template"], liveSpec["template"], "template") != "" {
		return declare
	}
	for _, spare := range []bool{true, false} {
		ours, err := fields(strategyOf(spare))
		if err != nil || differs(ours, liveSpec["strategy"], "strategy") != "" {
			continue
		}
		kept := maps.Clone(declare)
		keptSpec := maps.Clone(spec)
		keptSpec["strategy"] = ours
		kept["spec"] = keptSpec
		return kept
	}
	return declare
}
