package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"modeldock.io/api/v1alpha1"
)

// Declared is what should be there for one object: each child with exactly
// the fields that the operator decides, in JSON's terms.
type Declared struct {
	Deployment map[string]any
	Service    map[string]any
	Autoscaler map[string]any // nil: none
	// ClaimTemplate is nil where cards do not come by claims.
	ClaimTemplate map[string]any
}

// Build declares the children of m. An error means that m asks for what this
// cluster cannot run, whatever time passes.
func Build(m *v1alpha1.ModelService, o Options) (Declared, error) {
	p, err := programOf(m, o)
	if err != nil {
		return Declared{}, err
	}
	deployment, err := fields(deploymentOf(m, p, o))
	if err != nil {
		return Declared{}, fmt.Errorf("declare the Deployment of %s: %w", m.Name, err)
	}
	service, err := fields(serviceOf(m, p))
	if err != nil {
		return Declared{}, fmt.Errorf("declare the Service of %s: %w", m.Name, err)
	}
	d := Declared{Deployment: deployment, Service: service}
	children := []map[string]any{deployment, service}
	if o.GPU.Mode == GPUDRA {
		if d.ClaimTemplate, err = fields(templateOf(m, o.GPU)); err != nil {
			return Declared{}, fmt.Errorf("declare the ResourceClaimTemplate of %s: %w", m.Name, err)
		}
		children = append(children, d.ClaimTemplate)
	}
	if autoscaled(m) {
		if d.Autoscaler, err = fields(autoscalerOf(m)); err != nil {
			return Declared{}, fmt.Errorf("declare the autoscaler of %s: %w", m.Name, err)
		}
		children = append(children, d.Autoscaler)
	}
	for _, child := range children {
		if err := sign(child); err != nil {
			return Declared{}, fmt.Errorf("declare the children of %s: %w", m.Name, err)
		}
	}
	return d, nil
}

// annotationDeclared has a hash of all that is declared of a child. By the
// fields alone nobody could tell one that is declared no more from one that
// somebody else added.
const annotationDeclared = v1alpha1.GroupName + "/declared"

// sign sets the hash. The rollout strategy is no part of it: it is kept while
// nothing rolls.
func sign(child map[string]any) error {
	signed := maps.Clone(child)
	if spec, ok := child["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "strategy")
		signed["spec"] = spec
	}
	text, err := json.Marshal(signed) // keys in order
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	meta, _ := child["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		return errors.New("it has no annotations")
	}
	annotations[annotationDeclared] = hex.EncodeToString(sum[:8])
	return nil
}

// fields turns a declaration into what it is on the wire; whole numbers stay
// whole.
func fields(declaration any) (map[string]any, error) {
	text, err := json.Marshal(declaration)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}

// Running is how many replicas may run: what is wanted, as far as it is paid.
func Running(m *v1alpha1.ModelService) int32 {
	return max(0, min(m.Spec.Replicas, m.Spec.Budget.FundedReplicas))
}

func deploymentOf(m *v1alpha1.ModelService, p program, o Options) *appsv1ac.DeploymentApplyConfiguration {
	progress := int32((p.loadTime + o.PullTime).Seconds())
	return appsv1ac.Deployment(m.Name, m.Namespace).
		WithLabels(labelsOf(m)).WithAnnotations(annotationsOf(m)).WithOwnerReferences(ownerReference(m)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(Running(m)).
			WithPaused(false).
			WithMinReadySeconds(0).
			WithRevisionHistoryLimit(1).
			WithProgressDeadlineSeconds(progress).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorOf(m))).
			WithStrategy(strategyOf(o.SpareCard != nil && o.SpareCard(m))).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labelsOf(m)).
				WithAnnotations(merged(annotationsOf(m), o.GPU.annotations(m))).
				WithSpec(podOf(m, p, o))))
}

// strategyOf rolls without a gap where a card is spare, and otherwise ends a
// replica before the next starts: that one could never be placed before.
func strategyOf(spare bool) *appsv1ac.DeploymentStrategyApplyConfiguration {
	surge, unavailable := 0, 1
	if spare {
		surge, unavailable = 1, 0
	}
	return appsv1ac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
		WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
			WithMaxSurge(intstr.FromInt(surge)).WithMaxUnavailable(intstr.FromInt(unavailable)))
}

const portName = v1alpha1.PortName

// serviceOf is headless: gateways read its EndpointSlices and call Pods.
func serviceOf(m *v1alpha1.ModelService, p program) *corev1ac.ServiceApplyConfiguration {
	served := map[string]string{
		v1alpha1.AnnotationModel: m.Spec.Model.Name, v1alpha1.AnnotationVersion: m.Spec.Model.Version, v1alpha1.AnnotationUpstream: p.upstream,
	}
	if p.parallel > 0 {
		served[v1alpha1.AnnotationParallel] = strconv.Itoa(p.parallel)
	}
	return corev1ac.Service(m.Name, m.Namespace).
		WithLabels(labelsOf(m)).WithAnnotations(annotationsOf(m)).WithOwnerReferences(ownerReference(m)).
		WithAnnotations(served).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(false).
			WithSelector(selectorOf(m)).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).
				WithPort(defaultPort).WithTargetPort(intstr.FromString(portName))))
}
