package operator

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

func podOfService(t tester, m *v1alpha1.ModelService, o Options) (corev1.PodTemplateSpec, corev1.Container) {
	t.Helper()
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(declared(t, m, o).Deployment, &d); err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template, d.Spec.Template.Spec.Containers[0]
}

func TestPodIsConfinedAndDrains(t *testing.T) {
	t.Parallel()
	o := options()
	o.DrainDelay, o.LongestStream = 7*time.Second, 100*time.Second
	pod, c := podOfService(t, newService(), o)
	switch s := pod.Spec; {
	case *s.AutomountServiceAccountToken, *s.EnableServiceLinks, !*s.SecurityContext.RunAsNonRoot, *s.SecurityContext.RunAsUser == 0,
		s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault, *s.TerminationGracePeriodSeconds < 107,
		*c.SecurityContext.AllowPrivilegeEscalation, !*c.SecurityContext.ReadOnlyRootFilesystem,
		!slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}):
		t.Errorf("the Pod is not confined: %+v", s)
	}
	if c.Lifecycle.PreStop.Sleep.Seconds != 7 || c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		t.Errorf("preStop %+v, messages %s", c.Lifecycle.PreStop, c.TerminationMessagePolicy)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/health" || c.StartupProbe.FailureThreshold*c.StartupProbe.PeriodSeconds < 600 {
		t.Errorf("probes %+v, %+v", c.ReadinessProbe, c.StartupProbe)
	}
}

func TestCommandsOfEngines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*v1alpha1.ModelServiceSpec)
		command string
		args    string // a part of them
		failure string
	}{
		"simulated": {func(*v1alpha1.ModelServiceSpec) {}, "", "engine-simulated --stop-time 10m0s --host 0.0.0.0 --port 8000 --model tiny --memory 4096", ""},
		"port":      {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Port = 9001 }, "", "--port 9001", ""},
		"two cards": {func(s *v1alpha1.ModelServiceSpec) {
			s.Engine.Kind, s.Model.Source, s.GPU.Count = "vllm", "hf://org/m", 2
		}, "vllm", "serve org/m --host 0.0.0.0 --port 8000 --served-model-name tiny --tensor-parallel-size 2", ""},
		"claim": {func(s *v1alpha1.ModelServiceSpec) {
			s.Engine.Kind, s.Model.Source = "llamacpp", "pvc://weights/a/b.gguf"
		}, "", "-m /models/a/b.gguf --host 0.0.0.0", ""},
		"claim escapes": {func(s *v1alpha1.ModelServiceSpec) {
			s.Engine.Kind, s.Model.Source = "llamacpp", "pvc://weights/../b.gguf"
		}, "", "", "pvc://weights/tiny.gguf"},
		"file":      {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Kind, s.Model.Source = "vllm", "file:///m" }, "", "", "pvc://claim/path"},
		"bucket":    {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Kind, s.Model.Source = "sglang", "s3://b/m" }, "", "", "hf://org/model"},
		"no source": {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Kind = "vllm" }, "", "", "hf://org/model"},
		"sglang":    {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Kind, s.Model.Source = "sglang", "hf://org/m" }, "python3", "-m sglang.launch_server --model-path org/m", ""},
		"ollama":    {func(s *v1alpha1.ModelServiceSpec) { s.Engine.Kind, s.Model.Source = "ollama", "hf://org/m" }, "/bin/sh", "serve", ""},
		"custom": {func(s *v1alpha1.ModelServiceSpec) {
			s.Engine = v1alpha1.Engine{Kind: "custom", Image: "x", Command: []string{"srv", "--port", "${PORT}"}, Args: []string{"$(HOME)", "${GPU_UUID}"}}
		}, "srv", "--port 8000 $$(HOME) ", ""},
		"custom image": {func(s *v1alpha1.ModelServiceSpec) {
			s.Engine = v1alpha1.Engine{Kind: "custom", Image: "x", Args: []string{"-v"}}
		}, "", "-v", ""},
		"custom no image": {func(s *v1alpha1.ModelServiceSpec) { s.Engine = v1alpha1.Engine{Kind: "custom", Command: []string{"x"}} }, "", "", "set model.image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newService()
			c.change(&m.Spec)
			if c.failure != "" {
				if _, err := Build(m, options()); err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("error %v, want one that says %q", err, c.failure)
				}
				return
			}
			_, got := podOfService(t, m, options())
			command := ""
			if len(got.Command) > 0 {
				command = got.Command[0]
			}
			if args := strings.Join(got.Args, " "); command != c.command || !strings.Contains(args, c.args) {
				t.Errorf("command %q, arguments %q; want %q and %q", got.Command, args, c.command, c.args)
			}
		})
	}
}

func TestDevicePluginModeAsksForCards(t *testing.T) {
	t.Parallel()
	o := options()
	o.GPU = GPU{Mode: GPUDevicePlugin, SchedulerName: "gpu"}.withDefaults()
	m := newService()
	m.Spec.GPU = v1alpha1.GPU{MemoryMiB: 1000, Count: 2}
	m.Spec.Class, m.Spec.Workload = "vision", "batch"
	m.Spec.Engine = v1alpha1.Engine{Kind: "custom", Image: "x", Args: []string{"${GPU_UUID}"}, Env: []v1alpha1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}}
	pod, c := podOfService(t, m, o)
	if n := c.Resources.Limits["modeldock.io/gpu-memory"]; n.Value() != 6 {
		t.Errorf("it asks for %v chunks, want 6 (two cards of three)", n.Value())
	}
	m.Spec.GPU = v1alpha1.GPU{MemoryMiB: 100, Count: 2}
	_, small := podOfService(t, m, o)
	if n := small.Resources.Limits["modeldock.io/gpu-memory"]; n.Value() != 2 {
		t.Errorf("less than a chunk of each of two cards asks for %v chunks, want 2", n.Value())
	}
	if pod.Annotations[v1alpha1.AnnotationGPUMemory] != "1000" || pod.Annotations[v1alpha1.AnnotationGPUCount] != "2" || pod.Spec.SchedulerName != "gpu" {
		t.Errorf("annotations %v, scheduler %q", pod.Annotations, pod.Spec.SchedulerName)
	}
	if r, asked, err := placement.FromAnnotations(pod.Annotations); err != nil || !asked || r.Class != "vision" || r.Workload != "batch" {
		t.Errorf("the scheduler reads %+v, %v, %v", r, asked, err)
	}
	seen := 0
	for _, e := range c.Env {
		if e.Name == nvidiaVariable || e.Name == cardVariable {
			seen++
			if e.ValueFrom == nil {
				t.Errorf("%s is %q; a tenant must not choose the card", e.Name, e.Value)
			}
		}
	}
	if seen != 2 || c.Args[0] != "$(MODELDOCK_CARD)" {
		t.Errorf("%d variables, arguments %v", seen, c.Args)
	}
}

// Server-side apply refuses a variable that is there twice, and what ModelDock
// sets is not the tenant's to choose.
func TestNoVariableIsThereTwice(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"simulated", "llamacpp", "ollama", "vllm", "sglang"} {
		m := newService()
		m.Spec.Engine.Kind, m.Spec.Model.Source = kind, "hf://org/m"
		_, c := podOfService(t, m, options())
		for _, e := range c.Env {
			m.Spec.Engine.Env = append(m.Spec.Engine.Env, v1alpha1.EnvVar{Name: e.Name, Value: "tenant"})
		}
		_, again := podOfService(t, m, options())
		seen := map[string]bool{}
		for _, e := range again.Env {
			if seen[e.Name] {
				t.Errorf("%s: %s is there twice", kind, e.Name)
			}
			seen[e.Name] = true
		}
	}
}

func TestWithoutCardsNoneIsVisible(t *testing.T) {
	t.Parallel()
	_, c := podOfService(t, newService(), options())
	if c.Env[0].Name != nvidiaVariable || c.Env[0].Value != "void" {
		t.Errorf("environment %v", c.Env)
	}
}

func TestLabelsAreAlwaysValid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	if labelValue("team-a") != "team-a" || labelValue(long) == labelValue(long+"b") || len(labelValue(long)) > 63 {
		t.Errorf("%q, %q", labelValue("team-a"), labelValue(long))
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"mode":     {GPU: GPU{Mode: "magic"}},
		"chunk":    {GPU: GPU{ChunkMiB: -1}},
		"workers":  {Workers: -1},
		"resync":   {Resync: time.Millisecond},
		"no image": {Images: map[modelspec.Engine]Image{modelspec.EngineSimulated: {}}},
	} {
		if err := o.withDefaults().validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := options().validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// Whatever does not concern the Pod leaves its template as it is, and the same
// object always declares the same.
func TestBuildProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newService()
		m.Spec.Engine.Env = []v1alpha1.EnvVar{{Name: "Z", Value: "1"}, {Name: "A", Value: rapid.String().Draw(rt, "value")}}
		was := declared(rt, m, options())
		n := func(label string) int32 { return rapid.Int32Range(0, 100).Draw(rt, label) }
		m.Spec.Replicas, m.Spec.Budget.FundedReplicas, m.Spec.Traffic.Weight = n("replicas"), n("funded"), n("weight")
		m.Spec.Scaling = v1alpha1.Scaling{Min: n("min"), Max: n("max")}
		m.Spec.Cache = v1alpha1.Cache{Enabled: rapid.Bool().Draw(rt, "cache"), TTLSeconds: n("ttl")}
		m.Spec.ColdStart = v1alpha1.ColdStart{TimeoutSeconds: n("cold"), MaxWaiting: n("waiting")}
		m.Generation, m.ResourceVersion = int64(n("generation")), "77"
		m.Annotations = map[string]string{v1alpha1.AnnotationGeneration: "9", v1alpha1.AnnotationJournalSeq: "12"}
		now := declared(rt, m, options())
		if at := differs(was.Deployment["spec"].(map[string]any)["template"], now.Deployment["spec"].(map[string]any)["template"], "template"); at != "" {
			rt.Fatalf("%s changed", at)
		}
		if at := differs(now.Deployment, declared(rt, m, options()).Deployment, ""); at != "" {
			rt.Fatalf("declared again, %s is another", at)
		}
	})
}

// Gateways let in as many requests as the engine runs at once; one that does
// not say is not guessed for.
func TestServiceSaysHowManyRunAtOnce(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"--max-num-seqs=7": "7", "": ""} {
		m := newService()
		m.Spec.Engine.Kind, m.Spec.Model.Source, m.Spec.Engine.Args = "vllm", "hf://org/m", strings.Fields(args)
		var s corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(declared(t, m, options()).Service, &s); err != nil {
			t.Fatal(err)
		}
		if got := s.Annotations[v1alpha1.AnnotationParallel]; got != want {
			t.Errorf("args %q: %q run at once, want %q", args, got, want)
		}
	}
}
