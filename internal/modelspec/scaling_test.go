package modelspec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"modeldock.io/internal/modelspec"
)

// TestScalingHasOneSpelling: defaults that are written out are the same
// request as defaults that are left out.
func TestScalingHasOneSpelling(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                    "null",
		`{"actuator":"direct"}`: "null",
		`{"actuator":"direct","targets":{"queueDepth":0},"behavior":{},"idleSeconds":0,"paused":false}`: "null",
		`{"actuator":"hpa"}`:           `{"actuator":"hpa"}`,
		`{"idleSeconds":5}`:            `{"idleSeconds":5}`,
		`{"targets":{"queueDepth":3}}`: `{"targets":{"queueDepth":3}}`,
		`{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}},"paused":true}`: `{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}},"paused":true}`,
	} {
		var s modelspec.Scaling
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(s.Canonical()); err != nil || string(got) != want {
			t.Errorf("%s is %s, want %s (%v)", text, got, want, err)
		}
	}
}

func TestScalingNamesTheField(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		`{"actuator":"me"}`:                                            "model.scaling.actuator",
		`{"asleep":-1}`:                                                "model.scaling.asleep",
		`{"asleep":1}`:                                                 "",
		`{"idleSeconds":-1}`:                                           "model.scaling.idleSeconds",
		`{"targets":{"queueDepth":-1}}`:                                "model.scaling.targets.queueDepth",
		`{"targets":{"kvCachePercent":101}}`:                           "model.scaling.targets.kvCachePercent",
		`{"targets":{"gpuMemoryPercent":101}}`:                         "model.scaling.targets.gpuMemoryPercent",
		`{"targets":{"latencyP99Milliseconds":3600001}}`:               "model.scaling.targets.latencyP99Milliseconds",
		`{"behavior":{"scaleUp":{"stabilizationWindowSeconds":3601}}}`: "model.scaling.behavior.scaleUp.stabilizationWindowSeconds",
		`{"behavior":{"scaleUp":{"selectPolicy":"max"}}}`:              "model.scaling.behavior.scaleUp.selectPolicy",
		`{"behavior":{"scaleDown":{"tolerance":1.5}}}`:                 "model.scaling.behavior.scaleDown.tolerance",
		`{"behavior":{"scaleDown":{"policies":[{"type":"pods","value":1,"periodSeconds":1}]}}}`:       "model.scaling.behavior.scaleDown.policies[0].type",
		`{"behavior":{"scaleDown":{"policies":[{"type":"Pods","value":0,"periodSeconds":1}]}}}`:       "model.scaling.behavior.scaleDown.policies[0].value",
		`{"behavior":{"scaleDown":{"policies":[{"type":"Percent","value":1,"periodSeconds":1801}]}}}`: "model.scaling.behavior.scaleDown.policies[0].periodSeconds",
		`{"actuator":"keda","idleSeconds":5,"targets":{"queueDepth":10,"kvCachePercent":80,"gpuMemoryPercent":80,"latencyP99Milliseconds":500},
		  "behavior":{"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","tolerance":0.1,"policies":[{"type":"Pods","value":4,"periodSeconds":60}]}}}`: "",
	} {
		m := modelspec.Default("x")
		if err := json.Unmarshal([]byte(text), &m.Scaling); err != nil {
			t.Fatal(err)
		}
		err := m.Validate()
		var f *modelspec.FieldError
		if field == "" && err != nil || field != "" && (!errors.As(err, &f) || f.Field != field || !strings.Contains(f.Message, field)) {
			t.Errorf("%s: %v, want field %q", text, err, field)
		}
	}
}

// Only engines that can leave their cards and stay loaded may be asked to.
func TestWhichEnginesSleep(t *testing.T) {
	t.Parallel()
	for _, e := range modelspec.Engines() {
		m := modelspec.Default("x")
		m.Engine, m.GPUs, m.Scaling = e, 2, &modelspec.Scaling{Asleep: 1}
		if e == modelspec.EngineCustom {
			m.Command = []string{"serve"}
		}
		err := m.Validate()
		var f *modelspec.FieldError
		if can := e == modelspec.EngineVLLM || e == modelspec.EngineSimulated; can != (err == nil) || !can && (!errors.As(err, &f) || f.Field != "model.scaling.asleep" || !strings.Contains(f.Message, string(e))) {
			t.Errorf("%s: %v", e, err)
		}
		if m.Asleep() != 1 || m.HostMiB() != 2*m.GPUMemory {
			t.Errorf("%s: %d asleep, %d MiB of host memory", e, m.Asleep(), m.HostMiB())
		}
	}
}
