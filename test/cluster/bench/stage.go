package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

// stage is the running installation and what is seen of it.
type stage struct {
	plan    plan
	cluster *cluster.Cluster
	dock    *dock.Dock
	client  *kubernetes.Clientset
	objects dynamic.ResourceInterface // the ModelServices
	api     management.Client         // as the tenant
	shape   *appsv1.Deployment        // of one ModelService, without its owner

	services    *sightings // ModelServices, by the request's id
	pods        *sightings // their Pods, by the request's id
	deployments *sightings // plain ones, by name

	results []result
}

func newStage(ctx context.Context, p plan, c *cluster.Cluster, d *dock.Dock) (*stage, error) {
	cfg, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	s := &stage{
		plan: p, cluster: c, dock: d, client: client, api: management.Client{URL: d.Controllers[0].URL, Key: d.Keys[tenant]},
		services: newSightings(), pods: newSightings(), deployments: newSightings(),
	}
	kind := v1alpha1.GroupVersion().WithResource("modelservices")
	s.objects = dyn.Resource(kind).Namespace(dock.Namespace)
	ours := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dyn, 0, dock.Namespace, nil)
	theirs := informers.NewSharedInformerFactory(client, 0)
	return s, errors.Join(
		follow(ctx, ours.ForResource(kind).Informer(), func(o *unstructured.Unstructured) {
			s.services.note(o.GetAnnotations()[v1alpha1.AnnotationID], serviceReady(o))
		}),
		follow(ctx, theirs.Core().V1().Pods().Informer(), func(p *corev1.Pod) {
			if id := p.Annotations[v1alpha1.AnnotationID]; id != "" {
				s.pods.note(id, podReady(p))
			}
		}),
		follow(ctx, theirs.Apps().V1().Deployments().Informer(), func(d *appsv1.Deployment) {
			if d.Namespace == plainNamespace {
				s.deployments.note(d.Name, d.Status.ReadyReplicas > 0 && d.Status.ObservedGeneration == d.Generation)
			}
		}),
	)
}

// follow tells note of every object that is added or changed.
func follow[T runtime.Object](ctx context.Context, informer cache.SharedIndexInformer, note func(T)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { note(o.(T)) }, UpdateFunc: func(_, o any) { note(o.(T)) },
	})
	if err != nil {
		return fmt.Errorf("follow what happens: %w", err)
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("follow what happens: %w", ctx.Err())
	}
	return nil
}

func serviceReady(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == v1alpha1.ConditionReady && m["status"] == "True" && m["observedGeneration"] == o.GetGeneration()
	})
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// measure runs everything in turn.
func (s *stage) measure(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.learnShape, s.scale, s.latencies, s.memory, s.rest} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return report(s.results)
}

// parallel calls f for 0 … n-1, sixteen at a time.
func parallel(n int, f func(int) error) error {
	errs := make([]error, n)
	turns := make(chan struct{}, 16)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			errs[i] = f(i)
			<-turns
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func seconds(d time.Duration) float64      { return d.Seconds() }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
