package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/test/cluster/dock"
)

// plainNamespace holds the Deployments that are nobody's.
const plainNamespace = "plain"

// withService begins the names of those that have a Service each.
const withService = "with-services-"

// submit asks for one model.
func (s *stage) submit(ctx context.Context, id string) error {
	return s.api.Call(ctx, http.MethodPost, "/requests", map[string]any{"id": id, "cost": 1, "priority": 50}, nil)
}

// learnShape makes one ModelService and takes its Deployment as the pattern
// for plain ones.
func (s *stage) learnShape(ctx context.Context) error {
	const id = "pattern"
	if err := s.submit(ctx, id); err != nil {
		return err
	}
	if _, err := s.services.wait(ctx, 1, func(name string) bool { return name == id }); err != nil {
		return fmt.Errorf("wait for the first ModelService: %w", err)
	}
	list, err := s.client.AppsV1().Deployments(dock.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelModelService})
	if err != nil || len(list.Items) != 1 {
		return fmt.Errorf("read the pattern: %d Deployments: %w", len(list.Items), err)
	}
	s.shape = &list.Items[0]
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plainNamespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the namespace of plain Deployments: %w", err)
	}
	return nil
}

// scale makes plain Deployments, each with a Service, as many ModelServices,
// and the Deployments once more: what the machine had to do beside meets both
// sides. That of Deployments with Services tells what Kubernetes itself needs
// for what a ModelService consists of, whoever makes it.
func (s *stage) scale(ctx context.Context) error {
	var took [4]time.Duration
	var cpu [4]float64
	for i, side := range []struct {
		round  func(context.Context, string) (time.Duration, error)
		prefix string
		clear  func(context.Context) error
	}{
		{s.plainRound, "before-", s.removePlain}, {s.plainRound, withService, s.removePlain},
		{s.serviceRound, "model-", s.calm}, {s.plainRound, "after-", s.removePlain},
	} {
		start, began := s.effort(), time.Now()
		var err error
		if took[i], err = side.round(ctx, side.prefix); err != nil {
			return err
		}
		var parts string
		parts, cpu[i] = s.effort().since(start)
		fmt.Printf("  CPU seconds: %.1f: %s\n", cpu[i], parts)
		asked, err := s.requestsPerObject(began)
		if err != nil {
			return err
		}
		fmt.Printf("  requests per object: %s\n", asked)
		if err := side.clear(ctx); err != nil {
			return err
		}
	}
	s.compare("ready", seconds(took[2]), (seconds(took[0])+seconds(took[3]))/2)
	s.compare("ready_cpu", cpu[2], (cpu[0]+cpu[3])/2)
	s.compare("ready_with_services", seconds(took[2]), seconds(took[1]))
	s.compare("ready_cpu_with_services", cpu[2], cpu[1])
	return nil
}

func (s *stage) compare(name string, ours, baseline float64) {
	s.results = append(s.results, result{
		Name: fmt.Sprintf("%s_%d", name, s.plan.objects), Value: ours, Unit: "s", Baseline: baseline, Ratio: ours / baseline, Target: 2, Better: "lower",
	})
}

// plainRound makes Deployments, waits until the last is ready, and removes them.
func (s *stage) plainRound(ctx context.Context, prefix string) (time.Duration, error) {
	n := s.plan.objects
	began := time.Now()
	profiled := s.profile(ctx, prefix)
	err := parallel(n, func(i int) error {
		d := s.plain(fmt.Sprint(prefix, i))
		if prefix == withService {
			if _, err := s.client.CoreV1().Services(plainNamespace).Create(ctx, serviceOf(d), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		_, err := s.client.AppsV1().Deployments(plainNamespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make plain Deployments: %w", err)
	}
	made := time.Since(began)
	last, err := s.deployments.wait(ctx, n, func(name string) bool { return strings.HasPrefix(name, prefix) })
	if err != nil {
		return 0, fmt.Errorf("wait for plain Deployments: %w", err)
	}
	took := last.Sub(began)
	if err := profiled(); err != nil {
		return 0, err
	}
	fmt.Printf("%d Deployments (%s): made after %s, all ready after %s\n", n, strings.TrimSuffix(prefix, "-"), made.Round(time.Millisecond), took.Round(time.Millisecond))
	return took, nil
}

// serviceOf is a headless Service of a Deployment's Pods, as a ModelService's is.
func serviceOf(d *appsv1.Deployment) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: d.Labels},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: d.Spec.Selector.MatchLabels,
			Ports: []corev1.ServicePort{{Name: v1alpha1.PortName, Port: 8000, TargetPort: intstr.FromString(v1alpha1.PortName)}},
		},
	}
}

// plain is a Deployment like a ModelService's, of nobody.
func (s *stage) plain(name string) *appsv1.Deployment {
	d := s.shape.DeepCopy()
	d.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: plainNamespace, Labels: map[string]string{"app": name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	// As many annotations as a ModelService's Pods have, saying nothing.
	annotations := map[string]string{}
	for k, v := range d.Spec.Template.Annotations {
		annotations[strings.ReplaceAll(k, v1alpha1.GroupName, "plain.test")] = v
	}
	d.Spec.Template.Annotations = annotations
	return d
}

func (s *stage) removePlain(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	if err := s.client.AppsV1().Deployments(plainNamespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("remove plain Deployments: %w", err)
	}
	services, err := s.client.CoreV1().Services(plainNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Services of plain Deployments: %w", err)
	}
	for _, service := range services.Items {
		if err := s.client.CoreV1().Services(plainNamespace).Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("remove the Services of plain Deployments: %w", err)
		}
	}
	for {
		pods, err := s.client.CoreV1().Pods(plainNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("wait for the end of plain Deployments: %w", err)
		}
		if len(pods.Items) == 0 {
			return nil
		}
		time.Sleep(time.Second)
	}
}

// serviceRound submits requests, all from the first call on counted, and waits
// until the last ModelService is Ready.
func (s *stage) serviceRound(ctx context.Context, prefix string) (time.Duration, error) {
	n := s.plan.objects
	began := time.Now()
	profiled := s.profile(ctx, prefix)
	if err := parallel(n, func(i int) error { return s.submit(ctx, fmt.Sprint(prefix, i)) }); err != nil {
		return 0, fmt.Errorf("submit requests: %w", err)
	}
	submitted := time.Since(began)
	match := func(name string) bool { return strings.HasPrefix(name, prefix) }
	last, err := s.services.wait(ctx, n, match)
	if err != nil {
		return 0, fmt.Errorf("wait for ModelServices: %w", err)
	}
	took := last.Sub(began)
	if err := profiled(); err != nil {
		return 0, err
	}
	made := s.services.lastSeen(match).Sub(began)
	fmt.Printf("%d ModelServices: submitted after %s, made after %s, all ready after %s\n", n, submitted.Round(time.Millisecond), made.Round(time.Millisecond), took.Round(time.Millisecond))
	return took, nil
}
