package hpaparity

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// world is everything that the controller sees: a scale, its Pods and their
// metrics, as functions of the bubble's time. The controller asks for the
// scale once per round: that is when a round's record begins.
type world struct {
	series *series
	begin  time.Time
	count  int
	born   []time.Time // of each Pod
}

func (w *world) round() *round { return &w.series.Rounds[len(w.series.Rounds)-1] }

func (w *world) Scales(string) scale.ScaleInterface { return w.scales() }

type scales struct {
	scale.ScaleInterface
	w *world
}

func (w *world) scales() scales { return scales{w: w} }

func (s scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	now := time.Now()
	at := now.Sub(s.w.begin)
	r := round{Seconds: at.Seconds(), Replicas: s.w.count, Decided: s.w.count, Values: map[string]reading{}}
	for _, born := range s.w.born {
		if now.Sub(born) < s.w.series.start {
			r.Pods += "p"
		} else {
			r.Pods += "r"
		}
	}
	for _, m := range s.w.series.Metrics {
		r.Values[m.Name] = m.at(at, r.Pods)
	}
	s.w.series.Rounds = append(s.w.series.Rounds, r)
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "model", Namespace: "ns"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: int32(s.w.count)},
		Status:     autoscalingv1.ScaleStatus{Replicas: int32(s.w.count), Selector: "app=model"},
	}, nil
}

func (s scales) Update(_ context.Context, _ schema.GroupResource, to *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	n := int(to.Spec.Replicas)
	s.w.round().Decided, s.w.count = n, n
	for len(s.w.born) < n {
		s.w.born = append(s.w.born, time.Now())
	}
	s.w.born = s.w.born[:n]
	return to, nil
}

func (w *world) List(labels.Selector) (list []*v1.Pod, err error) {
	for i, state := range w.round().Pods {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Namespace: "ns", Labels: map[string]string{"app": "model"}}}
		p.Status.Phase = v1.PodPending
		if state == 'r' {
			p.Status.Phase = v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}
		list = append(list, p)
	}
	return list, nil
}

func (w *world) Pods(string) listers.PodNamespaceLister { return podsOf{w: w} }

type podsOf struct {
	listers.PodNamespaceLister
	w *world
}

func (p podsOf) List(s labels.Selector) ([]*v1.Pod, error) { return p.w.List(s) }

// pods and autoscalers are informers that have read everything already.
type pods struct {
	coreinformers.PodInformer
	w *world
}

func (p pods) Informer() cache.SharedIndexInformer { return synced{} }
func (p pods) Lister() listers.PodLister           { return p.w }

type synced struct {
	cache.SharedIndexInformer
	handler *cache.ResourceEventHandler
	store   cache.Indexer
}

func (synced) HasSynced() bool         { return true }
func (s synced) GetStore() cache.Store { return s.store }
func (s synced) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	*s.handler = h
	return nil, nil
}

type autoscalers struct{ synced }

func (a autoscalers) Informer() cache.SharedIndexInformer { return a.synced }
func (a autoscalers) Lister() autoscalinglisters.HorizontalPodAutoscalerLister {
	return autoscalinglisters.NewHorizontalPodAutoscalerLister(a.store)
}

func (w *world) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("no resource metrics here")
}

func (w *world) GetRawMetric(name, _ string, _, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	info := metrics.PodMetricsInfo{}
	for i, v := range w.round().Values[name].Replica {
		if v != nil {
			info[fmt.Sprint("pod-", i)] = metrics.PodMetric{Timestamp: time.Now(), Window: time.Minute, Value: *v}
		}
	}
	if len(info) == 0 { // what the client of the API says of an empty list
		return nil, time.Time{}, fmt.Errorf("no metrics returned from custom metrics API")
	}
	return info, time.Now(), nil
}

func (w *world) GetObjectMetric(name, _ string, _ *autoscaling.CrossVersionObjectReference, _ labels.Selector) (int64, time.Time, error) {
	v := w.round().Values[name].Total
	if v == nil {
		return 0, time.Time{}, fmt.Errorf("the metric %s is unknown", name)
	}
	return *v, time.Now(), nil
}

func (w *world) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("no external metrics here")
}
