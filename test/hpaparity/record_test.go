package hpaparity

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
)

var write = flag.Bool("write", false, "write the record instead of comparing with it")

const (
	record = "../../internal/elastic/testdata/hpa.jsonl"
	length = 55 * time.Minute
	sync   = 15 * time.Second
)

// TestRecord: what the real controller decides on every series is what the
// record says, which internal/elastic is tested against.
func TestRecord(t *testing.T) {
	// They slow down by the wall clock, which a bubble's errors would wait for.
	utilruntime.ErrorHandlers = nil
	var text bytes.Buffer
	for _, s := range all() {
		synctest.Test(t, func(t *testing.T) { s.run(t) })
		if len(s.Rounds) < int(length/sync)-1 {
			t.Fatalf("%s: %d rounds", s.Name, len(s.Rounds))
		}
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if *write {
		if err := os.WriteFile(record, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(record); err != nil || !bytes.Equal(old, text.Bytes()) {
		t.Fatalf("%s is not what the controller decides (%v): go test ./... -write", record, err)
	}
}

// run lets the controller work through a series. All its time is the bubble's.
func (s *series) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{series: s, begin: time.Now(), count: s.first}
	for range s.first {
		w.born = append(w.born, w.begin.Add(-time.Hour))
	}
	hpa := s.hpa()
	var handler cache.ResourceEventHandler
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := store.Add(hpa); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(hpa)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	c := podautoscaler.NewHorizontalController(ctx, client.CoreV1(), w, client.AutoscalingV2(), mapper, w,
		autoscalers{synced{handler: &handler, store: store}}, pods{w: w}, sync, 5*time.Minute, 0.1, 5*time.Minute, 30*time.Second)
	done := make(chan struct{})
	go func() { c.Run(ctx, 1); close(done) }()
	handler.OnAdd(hpa, true)
	time.Sleep(length + time.Second) // the last round has its moment for itself
	cancel()
	<-done
	synctest.Wait()
}

func (s *series) hpa() *autoscaling.HorizontalPodAutoscaler {
	least := int32(s.Min)
	h := &autoscaling.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "model", Namespace: "ns", ResourceVersion: "1"}}
	h.Spec.ScaleTargetRef = autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "model"}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = &least, int32(s.Max)
	h.Spec.Behavior = &autoscaling.HorizontalPodAutoscalerBehavior{ScaleUp: s.Up.hpa(), ScaleDown: s.Down.hpa()}
	for _, m := range s.Metrics {
		target := resource.NewMilliQuantity(m.Target, resource.DecimalSI)
		id := autoscaling.MetricIdentifier{Name: m.Name}
		kind, how, _ := strings.Cut(m.Kind, "/")
		to := autoscaling.MetricTarget{Type: autoscaling.MetricTargetType(how), AverageValue: target}
		if how == "Value" {
			to.AverageValue, to.Value = nil, target
		}
		if kind == "Pods" {
			h.Spec.Metrics = append(h.Spec.Metrics, autoscaling.MetricSpec{Type: autoscaling.PodsMetricSourceType, Pods: &autoscaling.PodsMetricSource{Metric: id, Target: to}})
			continue
		}
		h.Spec.Metrics = append(h.Spec.Metrics, autoscaling.MetricSpec{Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{
			DescribedObject: h.Spec.ScaleTargetRef, Metric: id, Target: to,
		}})
	}
	return h
}

func (r rules) hpa() *autoscaling.HPAScalingRules {
	choose := autoscaling.ScalingPolicySelect(r.Select)
	tolerance := resource.MustParse(strconv.FormatFloat(r.Tolerance, 'f', -1, 64))
	to := &autoscaling.HPAScalingRules{StabilizationWindowSeconds: &r.Window, SelectPolicy: &choose, Tolerance: &tolerance}
	for _, p := range r.Policies {
		to.Policies = append(to.Policies, autoscaling.HPAScalingPolicy{Type: autoscaling.HPAScalingPolicyType(p.Type), Value: p.Value, PeriodSeconds: p.Period})
	}
	return to
}
