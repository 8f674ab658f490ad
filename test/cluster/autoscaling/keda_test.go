//go:build cluster && keda

package autoscaling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/test/cluster/dock"
)

// Who may write a number of replicas here.
const (
	horizontal = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
	controller = "system:serviceaccount:" + dock.System + ":modeldock-controller"
)

// TestKEDA: the real KEDA scales models by deploy/examples/keda.yaml and a real
// Prometheus, with the example's numbers. Load takes one from one replica to
// three and back without a stream cut. While its Prometheus is away, what runs
// goes on, and no model has less than two. ModelDock alone puts a model to sleep
// and wakes it. A ScaledObject that the settings do not name is told of. Each
// number has one writer.
func TestKEDA(t *testing.T) {
	t.Parallel()
	b := setupKEDA(t)
	begun := time.Now()
	say := func(format string, args ...any) {
		t.Logf("%4.0f s  %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	there, leaving := b.prometheus("there"), b.prometheus("leaving")
	b.serveToKEDA(there, "busy", "sleeper", "plain")
	b.serveToKEDA(leaving, "blind", "idle")
	for _, id := range []string{"busy", "blind", "idle"} {
		b.autoscaled(id)
	}
	say("KEDA scales busy, blind and idle")
	b.conflict("plain", v1alpha1.ReasonForeignAutoscaler, "ScaledObject plain (by its HorizontalPodAutoscaler keda-hpa-plain)")
	say("the ScaledObject of plain, whose actuator is direct, is told of")

	// 1. Up by load. One has its Prometheus taken away then.
	busy, blind := b.callFor("busy", 30, 120), b.callFor("blind", 30, 120)
	b.replicas("busy", 3)
	b.replicas("blind", 3)
	say("30 streams have 3 replicas of busy and of blind")
	leaving.stop()
	say("the Prometheus of blind and idle is away")

	// 2. To sleep and awake, by ModelDock.
	b.replicas("sleeper", 0)
	b.scaledObjectSays("sleeper", "Fallback", "False")
	say("sleeper sleeps")
	nap := b.callFor("sleeper", 1, 3)
	nap.uncut(t)
	b.replicas("sleeper", 1)
	say("a short call woke sleeper")

	// 3. What fallback asks for.
	b.replicas("idle", 2)
	for _, id := range []string{"idle", "blind"} {
		b.scaledObjectSays(id, "Fallback", "True")
	}
	say("fallback: idle has 2 replicas")
	b.replicas("sleeper", 0)
	b.history("sleeper")
	say("sleeper sleeps again, after its idleSeconds")
	b.must("delete", "scaledobject", "plain")
	b.conflict("plain", "", "")

	// 4. Down, where the load is known.
	busy.uncut(t)
	blind.uncut(t)
	say("all 60 streams have come to their end")
	b.replicas("busy", 1)
	b.replicas("blind", 3)
	say("busy has 1 replica; blind, which KEDA does not see, has 3 still")
	leaving.begin()
	for _, id := range []string{"idle", "blind"} {
		b.scaledObjectSays(id, "Fallback", "False")
		b.autoscaled(id)
	}
	say("Prometheus is back, and KEDA goes by it")
	b.writers(map[string][]string{"busy": {horizontal}, "blind": {horizontal}, "idle": {horizontal}, "sleeper": {controller}, "plain": nil})
}

// serveToKEDA submits models that serve eight streams at once, as the example
// supposes, with the example for each, and waits until each has a replica.
// Sleeper may sleep, and plain is ModelDock's to scale.
func (b *bundle) serveToKEDA(from *prometheus, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		least, actuator := 1, "keda"
		switch id {
		case "sleeper":
			least = 0
		case "plain":
			actuator = "direct"
		}
		b.submit(id, map[string]any{
			"name": id, "engine": "simulated", "args": []string{"--concurrency=8", "--token-time=1s", "--tokens=120"},
			"replicas": map[string]any{"min": least, "max": 3}, "coldStart": map[string]any{"timeoutSeconds": 600, "maxWaiting": 100},
			"scaling": map[string]any{"actuator": actuator, "idleSeconds": 60},
		})
		b.eventually("a replica of "+id, func(ctx context.Context) string {
			out, err := b.kubectl(ctx, "get", "modelservice", object(id), "-o", "jsonpath={.status.readyReplicas}")
			if err == nil && out == "1" {
				return ""
			}
			return fmt.Sprint(out, err)
		})
		b.scaledObject(id, least, from)
	}
}

// autoscaled waits until KEDA's autoscaler of a model gets its metrics, and the
// ModelService accepts it.
func (b *bundle) autoscaled(id string) {
	b.t.Helper()
	b.autoscaler("keda-hpa-"+id, "metrics", func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return condition(h, autoscalingv2.ScalingActive) == "True" && len(h.Spec.Metrics) == 2
	})
	b.conflict(id, "", "")
}

// conflict waits until a ModelService tells of an autoscaler for this reason,
// with these words; "" is none.
func (b *bundle) conflict(id, reason, says string) {
	b.t.Helper()
	b.eventually("AutoscalerConflict "+reason+" of "+id, func(ctx context.Context) string {
		out, err := b.kubectl(ctx, "get", "modelservice", object(id), "-o", `jsonpath={range .status.conditions[?(@.type=="AutoscalerConflict")]}{.reason}: {.message}{end}`)
		if got, words, _ := strings.Cut(out, ": "); err == nil && got == reason && strings.Contains(words, says) {
			return ""
		}
		return fmt.Sprint(out, err)
	})
}

// scaledObjectSays waits until KEDA says so, and nothing of the object is broken.
func (b *bundle) scaledObjectSays(id, kind, status string) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%s %s of ScaledObject %s", kind, status, id), func(ctx context.Context) string {
		out, err := b.kubectl(ctx, "get", "scaledobject", id, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {end}{.status.health}`)
		if err == nil && strings.Contains(out, kind+"="+status+" ") && strings.Contains(out, "Ready=True ") {
			return ""
		}
		return fmt.Sprint(out, err)
	})
}

// history checks that it was ModelDock that put a model to sleep, each time.
func (b *bundle) history(id string) {
	b.t.Helper()
	var steps []v1alpha1.ScalingStep
	out := b.must("get", "modelservice", object(id), "-o", "jsonpath={.status.scalingHistory}")
	if err := json.Unmarshal([]byte(out), &steps); err != nil {
		b.t.Fatalf("the history of %s: %v: %s", id, err, out)
	}
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%d→%d %s", s.From, s.To, s.Reason))
		b.t.Logf("  %s: %s %d → %d, %s: %s", id, s.At.Format(time.TimeOnly), s.From, s.To, s.Reason, s.Message)
	}
	if want := []string{"1→0 Idle", "0→1 Activated", "1→0 Idle"}; !slices.Equal(got, want) {
		b.t.Errorf("%s was scaled %v, want %v", id, got, want)
	}
}

// writers checks who wrote numbers of replicas, by the API server's audit log.
func (b *bundle) writers(want map[string][]string) {
	b.t.Helper()
	events, err := b.cluster.Audit()
	if err != nil {
		b.t.Fatal(err)
	}
	ids := map[string]string{}
	for id := range want {
		ids[object(id)] = id
	}
	wrote := map[string]map[string]int{}
	for _, e := range events {
		id, ours := ids[e.ObjectRef.Name]
		if !ours || e.ObjectRef.Resource != "modelservices" || !e.Writes() || e.ResponseStatus.Code >= 300 {
			continue
		}
		if strings.HasPrefix(e.User.Username, "system:serviceaccount:"+kedaSystem+":") {
			b.t.Errorf("KEDA itself wrote: %+v", e)
		}
		if e.ObjectRef.Subresource != "scale" {
			continue
		}
		if wrote[id] == nil {
			wrote[id] = map[string]int{}
		}
		wrote[id][e.User.Username]++
	}
	for id, who := range want {
		got := slices.Sorted(maps.Keys(wrote[id]))
		b.t.Logf("  the replicas of %s were written by %v", id, wrote[id])
		if !slices.Equal(got, who) {
			b.t.Errorf("the replicas of %s were written by %v, want %v", id, got, who)
		}
	}
}
