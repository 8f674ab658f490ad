//go:build cluster

package autoscaling

import (
	"context"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const metrics = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/modeldock/"

// TestRealAutoscaler: the cluster's own autoscaler, made by the operator and
// fed by the metrics API, takes a model from one replica to three and back
// under streams that all come to their end; without metrics it holds the count;
// and one of a person's takes its place.
func TestRealAutoscaler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve("chat", "hpa", 1, 3)
	name := object("chat")
	b.autoscaler(name, "metrics", func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return metav1.IsControlledBy(h, owner(b, name)) && condition(h, autoscalingv2.ScalingActive) == "True"
	})

	// One to three and back, by load.
	load := b.call("chat", 8)
	b.replicas("chat", 3)
	load.uncut(t)
	b.replicas("chat", 1)

	// Nobody tells the load: the count stays, although nothing is called.
	load = b.call("chat", 8)
	b.replicas("chat", 3)
	b.must("delete", "apiservice", "v1beta2.custom.metrics.k8s.io")
	b.autoscaler(name, "an answer without metrics", func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return condition(h, autoscalingv2.ScalingActive) == "False"
	})
	load.uncut(t)
	if out := b.must("get", "modelservice", name, "-o", "jsonpath={.spec.replicas}"); out != "3" {
		t.Errorf("%s replicas are asked for while the load is not known; there were 3", out)
	}
	b.offer()
	b.replicas("chat", 1)

	// The example takes the place of ours, and needs no other numbers.
	example := strings.NewReplacer("name: my-model #", "name: "+name+" #", "name: my-model", "name: mine").Replace(b.example("hpa.yaml"))
	if err := b.cluster.Apply(t.Context(), example); err != nil {
		t.Fatal(err)
	}
	b.eventually("the end of our autoscaler", func(ctx context.Context) string {
		out, err := b.kubectl(ctx, "get", "hpa", "-o", "name")
		if err == nil && strings.TrimSpace(out) == "horizontalpodautoscaler.autoscaling/mine" {
			return ""
		}
		return out
	})
	b.replicas("chat", 2) // its minReplicas
	b.autoscaler("mine", "metrics", func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return condition(h, autoscalingv2.AbleToScale) == "True" && len(h.Status.CurrentMetrics) > 0
	})
	if out := b.must("get", "--raw", metrics+"pods/*/inference_request_queue_depth"); strings.Count(out, `"value":"0"`) != 2 {
		t.Errorf("the queues of two idle Pods: %s", out)
	}
}

// TestOneWriter: an autoscaler on a model that ModelDock scales is told of, and
// ModelDock leaves the count to it; one on the Deployment below is told of and
// changes nothing.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve("chat", "direct", 1, 3)
	name := object("chat")
	conflict := func(reason string) {
		t.Helper()
		b.eventually("the condition "+reason, func(ctx context.Context) string {
			out, err := b.kubectl(ctx, "get", "modelservice", name, "-o", `jsonpath={.status.conditions[?(@.type=="AutoscalerConflict")].reason}`)
			if err == nil && out == reason {
				return ""
			}
			return out
		})
	}
	manifest := func(kind, version string) string {
		return strings.NewReplacer("name: my-model #", "name: "+name+" #", "name: my-model", "name: mine", "kind: ModelService", "kind: "+kind, "modeldock.io/v1alpha1", version).Replace(b.example("hpa.yaml"))
	}
	if err := b.cluster.Apply(t.Context(), manifest("ModelService", "modeldock.io/v1alpha1")); err != nil {
		t.Fatal(err)
	}
	conflict("ForeignAutoscaler")
	b.replicas("chat", 2) // its minReplicas: paid for, and not taken back by ModelDock
	b.must("delete", "hpa", "mine")
	conflict("")
	b.replicas("chat", 1)

	if err := b.cluster.Apply(t.Context(), manifest("Deployment", "apps/v1")); err != nil {
		t.Fatal(err)
	}
	conflict("AutoscalerBelow")
	b.replicas("chat", 1)
	b.must("delete", "hpa", "mine")
	conflict("")
}

// owner is the ModelService as an owner.
func owner(b *bundle, name string) metav1.Object {
	b.t.Helper()
	uid := b.must("get", "modelservice", name, "-o", "jsonpath={.metadata.uid}")
	return &metav1.ObjectMeta{Name: name, UID: types.UID(uid)}
}
