package api

import (
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
