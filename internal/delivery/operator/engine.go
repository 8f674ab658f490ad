package operator

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/modelspec"
)

// Where an engine's container keeps things.
const (
	cacheDir  = "/var/cache/modeldock" // writable; also the engine's home
	modelsDir = "/models"              // weights from a volume claim, read-only
	tmpDir    = "/tmp"
)

const defaultPort = 8000

// program is what one container runs and how it is asked whether it serves.
type program struct {
	image      string
	command    []string // empty: the image's entrypoint
	args       []string
	env        []*corev1ac.EnvVarApplyConfiguration
	port       int32
	healthPath string
	upstream   string   // the model name that the engine serves
	parallel   int      // requests that it runs at once; 0: its arguments do not say
	loaded     []string // command that succeeds once the model is there; empty: the health path tells
	loadTime   time.Duration
	claim      string // of a volume with weights
	readOnly   bool   // the root file system can be
	sharedMem  bool   // needs /dev/shm of more than the usual 64 MiB
}

// programOf expands the engine's preset for a container.
func programOf(m *v1alpha1.ModelService, o Options) (program, error) {
	kind := modelspec.Engine(m.Spec.Engine.Kind)
	preset, err := engine.For(kind)
	if err != nil {
		return program{}, err
	}
	image := o.Images[kind]
	if m.Spec.Engine.Image != "" {
		image.Reference = m.Spec.Engine.Image
	}
	if image.Reference == "" {
		return program{}, fmt.Errorf("engine %q needs an image on a cluster: set model.image", kind)
	}
	if o.GPU.Mode == GPUDRA && namesCard(m.Spec.Engine) {
		return program{}, errNoCardInCommands
	}
	p := program{image: image.Reference, port: defaultPort}
	if m.Spec.Engine.Port > 0 {
		p.port = m.Spec.Engine.Port
	}
	at := engine.Place{Host: "0.0.0.0", Port: int(p.port), WorkDir: cacheDir, Cards: make([]engine.Card, cardsOf(m.Spec.GPU))}
	model := modelOf(m, o.GPU)
	if p.claim, at.Weights, err = weightsOf(model); err != nil {
		return program{}, err
	}
	if p.claim != "" {
		model.Source = "file://" + at.Weights
	}
	switch kind {
	case modelspec.EngineCustom:
		if len(model.Command) == 0 { // the image knows its program
			image.Entrypoint, model.Command = true, []string{""}
		}
	case modelspec.EngineSimulated:
		model.Args = append([]string{"--stop-time", o.LongestStream.String()}, model.Args...)
	}
	plan, err := preset.Plan(model, at)
	if err != nil {
		return program{}, err
	}
	p.command, p.args = plan.Command[:1], plan.Command[1:]
	if image.Entrypoint {
		p.command = nil
	}
	p.healthPath, p.loadTime, p.upstream = plan.HealthPath, plan.LoadTimeout, plan.Upstream
	p.parallel = engine.Parallel(model)
	p.env = append(o.GPU.env(), containerEnv(plan.Env)...)
	p.confine(kind)
	if plan.Ollama != nil {
		p.wrapOllama(*plan.Ollama)
	}
	return p, nil
}

// namesCard reports whether a command or a variable asks for the card's name.
func namesCard(e v1alpha1.Engine) bool {
	words := slices.Concat(e.Command, e.Args)
	for _, v := range e.Env {
		words = append(words, v.Value)
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${GPU_UUID}") })
}

// modelOf translates back what the presets know. The kubelet expands $(NAME)
// in commands and variables and makes one $ of two; the presets do not, so what
// a tenant wrote is protected from it: every $ is doubled but those of the
// presets' own placeholders.
func modelOf(m *v1alpha1.ModelService, g GPU) modelspec.Model {
	literal := strings.NewReplacer("${PORT}", "${PORT}", "${MODEL}", "${MODEL}", "${MODEL_NAME}", "${MODEL_NAME}",
		"${GPU_UUID}", g.cardReference(), "$", "$$").Replace
	words := func(list []string) []string {
		var out []string
		for _, w := range list {
			out = append(out, literal(w))
		}
		return out
	}
	env := map[string]string{}
	for _, v := range m.Spec.Engine.Env {
		env[v.Name] = literal(v.Value)
	}
	return modelspec.Model{
		Name: m.Spec.Model.Name, Version: m.Spec.Model.Version, Source: literal(m.Spec.Model.Source),
		Engine: modelspec.Engine(m.Spec.Engine.Kind), HealthPath: m.Spec.Engine.HealthPath,
		Command: words(m.Spec.Engine.Command), Args: words(m.Spec.Engine.Args), Env: env,
		GPUMemory: m.Spec.GPU.MemoryMiB, GPUs: int(cardsOf(m.Spec.GPU)),
	}
}

// weightsOf says where the container finds the weights: on a claim's volume,
// or nowhere, and the engine fetches them.
func weightsOf(m modelspec.Model) (claim, file string, err error) {
	src, err := engine.ParseSource(m.Source)
	if err != nil {
		return "", "", err
	}
	fetches := m.Engine == modelspec.EngineSimulated || m.Engine == modelspec.EngineCustom // whatever it likes
	switch {
	case src.Scheme == "pvc":
		claim, inside, _ := strings.Cut(src.Rest, "/")
		if claim == "" || strings.Contains("/"+inside+"/", "/../") {
			return "", "", fmt.Errorf("model.source %q must name a volume claim and a path on it, for example pvc://weights/tiny.gguf", m.Source)
		}
		return claim, path.Join(modelsDir, inside), nil
	case src.Scheme == "file" && m.Engine != modelspec.EngineSimulated:
		return "", "", fmt.Errorf("model.source %q is a file of one machine and nodes of a cluster do not have it: put it on a volume and give pvc://claim/path", m.Source)
	case src.Scheme == "" || src.Scheme == "hf" || fetches:
		return "", "", nil
	}
	return "", "", fmt.Errorf("engine %q cannot fetch model.source %q on a cluster: give hf://org/model or pvc://claim/path", m.Engine, m.Source)
}

// containerEnv leaves out what the preset says of cards: in a container the
// chosen card comes from the Pod.
func containerEnv(list []string) []*corev1ac.EnvVarApplyConfiguration {
	var out []*corev1ac.EnvVarApplyConfiguration
	set := map[string]bool{
		nvidiaVariable: true, "CUDA_VISIBLE_DEVICES": true, cardVariable: true, ollamaModel: true, ollamaFile: true,
	}
	add := func(name, value string) {
		if !set[name] {
			set[name] = true
			out = append(out, corev1ac.EnvVar().WithName(name).WithValue(value))
		}
	}
	for _, kv := range list {
		name, value, _ := strings.Cut(kv, "=")
		add(name, value)
	}
	// The user has no entry in the image's accounts: these say what would be
	// looked up there.
	add("HOME", cacheDir)
	add("USER", "modeldock")
	return out
}

// confine says what an engine can do without. Python engines write beside
// their own code when they compile kernels.
func (p *program) confine(kind modelspec.Engine) {
	switch kind {
	case modelspec.EngineSimulated, modelspec.EngineLlamaCpp, modelspec.EngineOllama:
		p.readOnly = true
	case modelspec.EngineVLLM, modelspec.EngineSGLang:
		p.sharedMem = true
	}
}

// ollamaScript starts the server, brings the model into it and says so in a
// file. Names come by environment, so that none is read as shell; loading runs
// beside the script, so that a stop need not wait for it.
const ollamaScript = `"$@" & server=$!
trap 'kill -TERM $server' TERM INT
load() {
  until ollama list >/dev/null 2>&1; do kill -0 $server || return 1; sleep 1; done
  if [ -n "$MODELDOCK_OLLAMA_FILE" ]; then
    printf 'FROM %s\n' "$MODELDOCK_OLLAMA_FILE" >/tmp/Modelfile && ollama create "$MODELDOCK_OLLAMA_MODEL" -f /tmp/Modelfile
  else
    ollama show "$MODELDOCK_OLLAMA_MODEL" >/dev/null 2>&1 || ollama pull "$MODELDOCK_OLLAMA_MODEL"
  fi
}
load & wait $! || exit 1
touch /tmp/modeldock-loaded
wait $server; code=$?
while kill -0 $server 2>/dev/null; do wait $server; code=$?; done
exit $code`

// Variables of ollamaScript.
const (
	ollamaModel = "MODELDOCK_OLLAMA_MODEL"
	ollamaFile  = "MODELDOCK_OLLAMA_FILE"
)

// wrapOllama adds the step that Ollama needs after its server answers.
func (p *program) wrapOllama(load engine.OllamaLoad) {
	p.command = []string{"/bin/sh", "-c", ollamaScript, "start-ollama", "ollama"}
	p.loaded = []string{"test", "-f", "/tmp/modeldock-loaded"}
	p.env = append(p.env,
		corev1ac.EnvVar().WithName(ollamaModel).WithValue(load.Name),
		corev1ac.EnvVar().WithName(ollamaFile).WithValue(load.File))
}
