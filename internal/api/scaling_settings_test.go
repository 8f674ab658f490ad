package api

import (
	"strings"
	"testing"

	"modeldock.io/internal/api/openapi"
)

// TestScalingSettings: a patch changes the members that it names, shows them,
// and defaults that are written out leave no trace.
func TestScalingSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50,"model":{"replicas":{"min":0,"max":3},"scaling":{"actuator":"direct"}}}`).is(202)
	same := read[openapi.Request](b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50,"model":{"replicas":{"min":0,"max":3}}}`), 202)
	if same.Model.Scaling != nil || same.Submits != 2 {
		t.Errorf("defaults written out are another request: %+v, %d submits", same.Model.Scaling, same.Submits)
	}
	patch := func(generation, body string) openapi.Scaling {
		r := read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", `{"generation":`+generation+`,"scaling":`+body+`}`), 200)
		if r.Model.Scaling == nil {
			return openapi.Scaling{}
		}
		return *r.Model.Scaling
	}
	s := patch("1", `{"idleSeconds":7,"targets":{"queueDepth":3},"behavior":{"scaleDown":{"selectPolicy":"Min","policies":[{"type":"Percent","value":10,"periodSeconds":60}]}}}`)
	if value(s.IdleSeconds, 0) != 7 || value(s.Targets.QueueDepth, 0) != 3 || *s.Actuator != openapi.ScalingActuatorDirect || len(*s.Behavior.ScaleDown.Policies) != 1 {
		t.Errorf("as it was written: %+v", s)
	}
	s = patch("2", `{"paused":true,"targets":{"kvCachePercent":60},"behavior":{"scaleUp":{"stabilizationWindowSeconds":0}}}`)
	if !value(s.Paused, false) || value(s.IdleSeconds, 0) != 7 || value(s.Targets.QueueDepth, 0) != 3 || value(s.Targets.KvCachePercent, 0) != 60 ||
		s.Behavior.ScaleDown == nil || s.Behavior.ScaleUp.StabilizationWindowSeconds == nil {
		t.Errorf("the second change: %+v", s)
	}
	s = patch("3", `{"paused":false,"idleSeconds":0,"targets":{"kvCachePercent":0,"queueDepth":0},"behavior":{"scaleUp":{},"scaleDown":{}}}`)
	if s.Paused != nil || s.Targets != nil {
		t.Errorf("taken back: %+v", s)
	}
}

// TestAsleepWhereEnginesCan: it is kept and shown, refused for engines that
// cannot sleep, and refused where no engine can, at submit and in a patch.
func TestAsleepWhereEnginesCan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := func(a answer, why string) {
		t.Helper()
		if e := a.fails(400, "invalid_request"); !strings.HasSuffix(value(e.Field, ""), "scaling.asleep") || !strings.Contains(e.Message, why) {
			t.Errorf("refused by %+v, want %q", e, why)
		}
	}
	r := read[openapi.Request](b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50,"model":{"replicas":{"min":0},"scaling":{"asleep":2}}}`), 202)
	if r.Model.Scaling == nil || value(r.Model.Scaling.Asleep, 0) != 2 {
		t.Errorf("as it was written: %+v", r.Model.Scaling)
	}
	b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"scaling":{"asleep":0}}`).is(200)
	refused(b.ask(b.a, "POST", "/requests", `{"id":"two","cost":1,"priority":50,"model":{"engine":"llamacpp","source":"file:///m.gguf","scaling":{"asleep":1}}}`), "cannot sleep")

	cluster := setup(t, func(c *Config) { c.NoSleep = "a Pod holds its card" })
	refused(cluster.ask(cluster.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50,"model":{"scaling":{"asleep":1}}}`), "a Pod holds its card")
	cluster.ask(cluster.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50}`).is(202)
	refused(cluster.ask(cluster.a, "PATCH", "/requests/one", `{"generation":1,"scaling":{"asleep":1}}`), "a Pod holds its card")
}

// Where no autoscaler of Kubernetes is, none can be asked for.
func TestAutoscalersAreWhereKubernetesIs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.NoAutoscaler = "this is one machine" })
	b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50}`).is(202)
	for _, actuator := range []string{"hpa", "keda"} {
		for _, a := range []answer{
			b.ask(b.a, "POST", "/requests", `{"id":"two","cost":1,"priority":50,"model":{"scaling":{"actuator":"`+actuator+`"}}}`),
			b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"scaling":{"actuator":"`+actuator+`"}}`),
		} {
			if e := a.fails(400, "invalid_request"); !strings.HasSuffix(value(e.Field, ""), "scaling.actuator") || !strings.Contains(e.Message, "this is one machine") {
				t.Errorf("%s: refused by %+v", actuator, e)
			}
		}
	}
	b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"scaling":{"actuator":"none"}}`).is(200)
}
