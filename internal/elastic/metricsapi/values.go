package metricsapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/elastic"
)

// refusal is an answer that the caller can do something about.
type refusal struct {
	code    int
	reason  metav1.StatusReason
	message string
}

func (r *refusal) Error() string { return r.message }

func refused(code int, reason metav1.StatusReason, format string, args ...any) error {
	return &refusal{code, reason, fmt.Sprintf(format, args...)}
}

// values answers one call. Of many objects, those without a value are left
// out, which autoscalers take as missing; a single one is an error.
func (s *Server) values(ctx context.Context, a Access, query url.Values) (*valueList, error) {
	if !slices.Contains(names(), a.Metric) {
		return nil, refused(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no metric %s; there are %s", a.Metric, strings.Join(names(), ", "))
	}
	chosen, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, "read labelSelector: %v", err)
	}
	ofMetric, err := labels.Parse(query.Get("metricLabelSelector"))
	if err != nil {
		return nil, refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, "read metricLabelSelector: %v", err)
	}
	list := &valueList{TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: Group + "/" + Version}, Items: []value{}}
	if !ofMetric.Matches(labels.Set{}) {
		return list, nil // these metrics have no labels
	}
	var items []value
	switch a.Resource {
	case resourcePods:
		items, err = s.pods(ctx, a, chosen)
	case resourceModels:
		items, err = s.models(ctx, a, chosen)
	default:
		return nil, refused(http.StatusNotFound, metav1.StatusReasonNotFound, "there are no metrics of %s; there are those of %s and %s", a.Resource, resourcePods, resourceModels)
	}
	if err != nil {
		return nil, err
	}
	list.Items = append(list.Items, items...)
	if a.Name != "*" && len(items) == 0 {
		return nil, refused(http.StatusNotFound, metav1.StatusReasonNotFound, "%s of %s %s/%s is not known now, which is not zero", a.Metric, a.Resource, a.Namespace, a.Name)
	}
	return list, nil
}

// listed are the objects that a call names.
func (s *Server) listed(ctx context.Context, a Access, chosen labels.Selector, into client.ObjectList) error {
	opts := []client.ListOption{client.InNamespace(a.Namespace), client.MatchingLabelsSelector{Selector: chosen}}
	if a.Name != "*" {
		opts = append(opts, client.MatchingFields{"metadata.name": a.Name})
	}
	if err := s.cfg.Reader.List(ctx, into, opts...); err != nil {
		return fmt.Errorf("list the %s of %s: %w", a.Resource, a.Namespace, err)
	}
	return nil
}

func (s *Server) models(ctx context.Context, a Access, chosen labels.Selector) ([]value, error) {
	var all v1alpha1.ModelServiceList
	if err := s.listed(ctx, a, chosen, &all); err != nil {
		return nil, err
	}
	var out []value
	for i := range all.Items {
		m := &all.Items[i]
		in, err := s.signals(ctx, m)
		if errors.Is(err, ErrUnknown) && a.Name == "*" {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v, known := ofModel(in, a.Metric); known {
			out = append(out, s.value(corev1.ObjectReference{Kind: "ModelService", APIVersion: v1alpha1.GroupVersion().String(), Namespace: m.Namespace, Name: m.Name}, a.Metric, v))
		}
	}
	return out, nil
}

// pods are those of ModelServices. Where the load of every one of them is
// unknown, that is the answer.
func (s *Server) pods(ctx context.Context, a Access, chosen labels.Selector) ([]value, error) {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := s.listed(ctx, a, chosen, &all); err != nil {
		return nil, err
	}
	type known struct {
		in  elastic.Signals
		err error
	}
	byModel := map[string]known{}
	var out []value
	var unknown error
	for _, p := range all.Items {
		name := p.Labels[v1alpha1.LabelModelService]
		if name == "" {
			continue
		}
		k, asked := byModel[name]
		if !asked {
			k.in, k.err = s.signalsOf(ctx, client.ObjectKey{Namespace: a.Namespace, Name: name})
			byModel[name] = k
			unknown = errors.Join(unknown, k.err)
		}
		if k.err != nil {
			continue
		}
		if v, ok := ofPod(k.in, string(p.UID), a.Metric); ok {
			out = append(out, s.value(corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: a.Namespace, Name: p.Name}, a.Metric, v))
		}
	}
	if len(out) == 0 && unknown != nil {
		return nil, unknown
	}
	return out, nil
}

func (s *Server) signalsOf(ctx context.Context, key client.ObjectKey) (elastic.Signals, error) {
	var m v1alpha1.ModelService
	if err := s.cfg.Reader.Get(ctx, key, &m); apierrors.IsNotFound(err) {
		return elastic.Signals{}, fmt.Errorf("ModelService %s is gone: %w", key, ErrUnknown)
	} else if err != nil {
		return elastic.Signals{}, fmt.Errorf("read ModelService %s: %w", key, err)
	}
	return s.signals(ctx, &m)
}

// signals refuse to speak while a gateway is not heard: what it has waiting is
// missing in every sum.
func (s *Server) signals(ctx context.Context, m *v1alpha1.ModelService) (elastic.Signals, error) {
	in, err := s.cfg.Signals(ctx, m.Spec.Tenant, m.Spec.RequestID)
	if err != nil {
		return in, fmt.Errorf("ModelService %s/%s: %w", m.Namespace, m.Name, err)
	}
	if in.Blind {
		return in, fmt.Errorf("ModelService %s/%s: a gateway does not answer: %w", m.Namespace, m.Name, ErrUnknown)
	}
	return in, nil
}

// ofModel is one model's value: the total of what adds up, the mean of what
// each replica has by itself.
func ofModel(in elastic.Signals, metric string) (float64, bool) {
	r := in.Values[metric]
	if r.Total != nil {
		return *r.Total, usable(*r.Total)
	}
	sum, n := 0.0, 0
	for _, p := range in.Pods {
		if v, known := r.Replica[p.Name]; known && usable(v) && p.State != elastic.PodEnding {
			sum += v
			n++
		}
	}
	return sum / float64(max(n, 1)), n > 0
}

// ofPod is one replica's value. What is known of the model alone is shared by
// its ready replicas: the queue in equal parts, the latency as it is.
func ofPod(in elastic.Signals, uid, metric string) (float64, bool) {
	r := in.Values[metric]
	if v, known := r.Replica[uid]; known {
		return v, usable(v)
	}
	ready, here := 0, false
	for _, p := range in.Pods {
		if p.State == elastic.PodReady {
			ready++
			here = here || p.Name == uid
		}
	}
	if r.Total == nil || !here || !usable(*r.Total) {
		return 0, false
	}
	if metric == elastic.MetricLatency {
		return *r.Total, true
	}
	return *r.Total / float64(ready), true
}

func usable(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (s *Server) value(of corev1.ObjectReference, metric string, v float64) value {
	q := resource.NewMilliQuantity(int64(math.Ceil(min(v, 1e12)*1000-1e-6)), resource.DecimalSI)
	return value{DescribedObject: of, Metric: identifier{Name: metric}, Timestamp: metav1.NewTime(s.cfg.Clock()), Value: *q}
}
