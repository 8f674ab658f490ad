package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"modeldock.io/internal/modelspec"
)

func model(kind modelspec.Engine, change func(*modelspec.Model)) modelspec.Model {
	m := modelspec.Default("tiny")
	m.Engine = kind
	if change != nil {
		change(&m)
	}
	return m
}

func plan(t *testing.T, m modelspec.Model, at Place) Plan {
	t.Helper()
	p, err := For(m.Engine)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Plan(m, at)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPlans(t *testing.T) {
	t.Parallel()
	at := Place{Executable: "/bin/modeldock", Port: 4321, Weights: "/models/tiny.gguf", WorkDir: "/scratch/o"}
	for name, c := range map[string]struct {
		model    modelspec.Model
		command  string
		health   string
		upstream string
	}{
		"simulated": {
			model(modelspec.EngineSimulated, func(m *modelspec.Model) { m.Args = []string{"--ttft=1s"} }),
			"/bin/modeldock engine-simulated --ttft=1s --host 127.0.0.1 --port 4321 --model tiny --memory 4096", "/health", "tiny",
		},
		"custom": {
			model(modelspec.EngineCustom, func(m *modelspec.Model) {
				m.Command = []string{"my-server", "--port=${PORT}", "${MODEL}", "${MODEL_NAME}", "${HOME}"}
				m.HealthPath, m.Args = "/ready", []string{"-x"}
			}),
			"my-server --port=4321 /models/tiny.gguf tiny ${HOME} -x", "/ready", "tiny",
		},
		"llamacpp": {
			model(modelspec.EngineLlamaCpp, func(m *modelspec.Model) {
				m.Source, m.Args = "file:///anywhere/tiny.gguf", []string{"--ctx-size", "512"}
			}),
			"llama-server --ctx-size 512 -m /models/tiny.gguf --host 127.0.0.1 --port 4321 --alias tiny", "/health", "tiny",
		},
		"llamacpp from the hub": {
			model(modelspec.EngineLlamaCpp, func(m *modelspec.Model) { m.Source = "hf://org/repo" }),
			"llama-server -hf org/repo --host 127.0.0.1 --port 4321 --alias tiny", "/health", "tiny",
		},
		"ollama": {
			model(modelspec.EngineOllama, func(m *modelspec.Model) { m.Source = "llama3.2:1b" }),
			"ollama serve", "/", "llama3.2:1b",
		},
		"vllm": {
			model(modelspec.EngineVLLM, func(m *modelspec.Model) { m.Source = "hf://org/repo" }),
			"vllm serve org/repo --host 127.0.0.1 --port 4321 --served-model-name tiny", "/health", "tiny",
		},
		"sglang": {
			model(modelspec.EngineSGLang, func(m *modelspec.Model) { m.Source = "hf://org/repo" }),
			"python3 -m sglang.launch_server --model-path org/repo --served-model-name tiny --host 127.0.0.1 --port 4321", "/health", "tiny",
		},
	} {
		got := plan(t, c.model, at)
		if s := strings.Join(got.Command, " "); s != c.command {
			t.Errorf("%s: command\n%s, want\n%s", name, s, c.command)
		}
		if got.HealthPath != c.health || got.Upstream != c.upstream || got.IdentityPath != "/v1/models" || got.LoadTimeout <= 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if got.NeedsName != (c.model.Engine != modelspec.EngineCustom) {
			t.Errorf("%s: only a custom engine may keep its identity to itself", name)
		}
	}
}

func TestOllamaGetsItsOwnDirectoryAndFile(t *testing.T) {
	t.Parallel()
	m := model(modelspec.EngineOllama, func(m *modelspec.Model) { m.Source = "file:///w/tiny.gguf" })
	got := plan(t, m, Place{Port: 4321, Weights: "/w/tiny.gguf", WorkDir: "/scratch/o"})
	if got.Ollama == nil || *got.Ollama != (OllamaLoad{Name: "tiny", File: "/w/tiny.gguf"}) || got.Upstream != "tiny" {
		t.Fatalf("load step %+v", got)
	}
	for _, want := range []string{"OLLAMA_HOST=127.0.0.1:4321", "OLLAMA_MODELS=/scratch/o/ollama"} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("environment %q lacks %s", got.Env, want)
		}
	}
	m.Env = map[string]string{"OLLAMA_MODELS": "/shared"}
	if got := plan(t, m, Place{Weights: "/w/tiny.gguf"}); !slices.Contains(got.Env, "OLLAMA_MODELS=/shared") {
		t.Errorf("the request's own folder is ignored: %q", got.Env)
	}
}

// An engine sees its cards and no others, whatever the request's environment
// says; a simulated card is no device at all.
func TestEnginesSeeOnlyTheirCards(t *testing.T) {
	t.Parallel()
	m := model(modelspec.EngineCustom, func(m *modelspec.Model) {
		m.Command = []string{"x", "${GPU_UUID}"}
		m.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "all", "P": "${PORT}"}
	})
	got := plan(t, m, Place{Port: 7, Cards: []Card{{UUID: "GPU-1"}, {UUID: "GPU-2"}}})
	want := []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2", "P=7"}
	if !reflect.DeepEqual(got.Env, want) || got.Command[1] != "GPU-1,GPU-2" {
		t.Errorf("real cards: %q %q", got.Env, got.Command)
	}
	got = plan(t, m, Place{Port: 7, Cards: []Card{{UUID: "SIM-1", Simulated: true}}})
	want = []string{"CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void", "P=7"}
	if !reflect.DeepEqual(got.Env, want) {
		t.Errorf("simulated card: %q", got.Env)
	}
}

func TestSharedCardsBoundTheEngine(t *testing.T) {
	t.Parallel()
	m := model(modelspec.EngineVLLM, func(m *modelspec.Model) { m.Source = "hf://o/r" })
	got := plan(t, m, Place{Cards: []Card{{UUID: "GPU-1", MiB: 10000, TotalMiB: 40000}, {UUID: "GPU-2", MiB: 10000, TotalMiB: 81920}}})
	if s := strings.Join(got.Command, " "); !strings.HasSuffix(s, "--tensor-parallel-size 2 --gpu-memory-utilization 0.122") {
		t.Errorf("command %s", s)
	}
}

func TestSourcesThatCannotBeServed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   modelspec.Engine
		source string
		at     Place
	}{
		{modelspec.EngineLlamaCpp, "", Place{}},
		{modelspec.EngineLlamaCpp, "s3://bucket/x", Place{Weights: "/x"}},
		{modelspec.EngineLlamaCpp, "file://relative.gguf", Place{Weights: "/x"}},
		{modelspec.EngineVLLM, "plain", Place{}},
		{modelspec.EngineVLLM, "hf://--trust-remote-code", Place{}},
		{modelspec.EngineOllama, "oci://registry/x", Place{}},
	} {
		p, err := For(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Plan(model(c.kind, func(m *modelspec.Model) { m.Source = c.source }), c.at); err == nil {
			t.Errorf("%s with %q became %+v", c.kind, c.source, got)
		}
	}
	if _, err := For("nonsense"); err == nil {
		t.Error("an unknown engine has a preset")
	}
}

func TestArgsOutsidePreset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind modelspec.Engine
		args []string
		want []string
	}{
		{modelspec.EngineSimulated, []string{"--ttft=1ms", "--tokens", "3", "--ignore-sigterm", "--fail-load=a b"}, nil},
		{modelspec.EngineSimulated, []string{"--host=0.0.0.0", "--port", "80", "--idle"}, []string{"--host=0.0.0.0", "--port", "80", "--idle"}},
		{modelspec.EngineLlamaCpp, []string{"-c", "512", "--temp", "-1", "--jinja"}, nil},
		{modelspec.EngineLlamaCpp, []string{"--slot-save-path", "/etc"}, []string{"--slot-save-path", "/etc"}},
		{modelspec.EngineLlamaCpp, []string{"-c", "--model", "/etc/x"}, []string{"--model", "/etc/x"}},
		{modelspec.EngineLlamaCpp, []string{"-c=5"}, []string{"-c=5"}},
		{modelspec.EngineLlamaCpp, []string{"--jinja", "/etc/x"}, []string{"/etc/x"}},
		{modelspec.EngineVLLM, []string{"--max-model-len=2048", "--trust-remote-code", "--gpu-memory-utilization=0.99"}, []string{"--trust-remote-code", "--gpu-memory-utilization=0.99"}},
		{modelspec.EngineOllama, []string{"anything"}, []string{"anything"}},
		{modelspec.EngineCustom, []string{"anything"}, []string{"anything"}},
	} {
		if got := ArgsOutsidePreset(model(c.kind, func(m *modelspec.Model) { m.Args = c.args }), nil); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: outside %q, want %q", c.kind, c.args, got, c.want)
		}
	}
}

// An entry of a tenant's list opens one argument by its whole name, and lets
// nothing else in with it.
func TestArgumentsOpenedByName(t *testing.T) {
	t.Parallel()
	also := map[string]bool{"--trust-remote-code": false, "--lora": true}
	for _, c := range []struct{ args, want []string }{
		{[]string{"--trust-remote-code", "--lora", "/x", "--lora=/y", "--dtype=half"}, nil},
		{[]string{"--trust-remote-code", "evil/model"}, []string{"evil/model"}},
		{[]string{"--lora", "--model=evil/model"}, []string{"--model=evil/model"}},
		{[]string{"--trust-remote", "--lora-modules=x"}, []string{"--trust-remote", "--lora-modules=x"}},
		{[]string{"--TRUST-REMOTE-CODE"}, []string{"--TRUST-REMOTE-CODE"}},
	} {
		m := model(modelspec.EngineVLLM, func(m *modelspec.Model) { m.Args = c.args })
		if got := ArgsOutsidePreset(m, also); !slices.Equal(got, c.want) {
			t.Errorf("%q: outside %q, want %q", c.args, got, c.want)
		}
	}
}

func TestDiscoverAlwaysHasTheBuiltInEngine(t *testing.T) {
	t.Parallel()
	if found := Discover(); len(found) == 0 || found[0].Engine != modelspec.EngineSimulated {
		t.Fatalf("found %+v", found)
	}
}

// What is needed to sleep is there only if somebody asks for it, and only for
// engines that can.
func TestSleepersAreStartedSo(t *testing.T) {
	t.Parallel()
	asleep := func(m *modelspec.Model) { m.Source, m.Scaling = "hf://org/repo", &modelspec.Scaling{Asleep: 1} }
	awake := func(m *modelspec.Model) { m.Source = "hf://org/repo" }
	for _, kind := range modelspec.Engines() {
		if kind == modelspec.EngineCustom {
			continue
		}
		want, dev := kind.Sleeps(), kind == modelspec.EngineVLLM
		got := plan(t, model(kind, asleep), Place{})
		if slices.Contains(got.Command, "--enable-sleep-mode") != want || (got.Sleeper != nil) != want || slices.Contains(got.Env, "VLLM_SERVER_DEV_MODE=1") != dev {
			t.Errorf("%s: %q, %q, sleeper %v", kind, got.Command, got.Env, got.Sleeper)
		}
		if got := plan(t, model(kind, awake), Place{}); got.Sleeper != nil || slices.Contains(got.Command, "--enable-sleep-mode") || slices.Contains(got.Env, "VLLM_SERVER_DEV_MODE=1") {
			t.Errorf("%s, not asked to: %q, %q", kind, got.Command, got.Env)
		}
	}
}

func TestSleepersStateIsRead(t *testing.T) {
	t.Parallel()
	s := vllmSleeper()
	for answer, want := range map[string]string{`{"is_sleeping":true}`: "true <nil>", `{"is_sleeping": false}`: "false <nil>", `{}`: "does not say", `Not Found`: "does not say"} {
		asleep, err := s.IsAsleep([]byte(answer))
		if got := fmt.Sprint(asleep, " ", err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}
