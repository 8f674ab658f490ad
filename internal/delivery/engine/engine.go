// Package engine knows the inference engines (account 2): what to start for a
// model, how to ask it whether it is ready and which model it serves. It is
// pure: a model and a place go in, a command comes out.
package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/modelspec"
)

// Place is where one replica will run.
type Place struct {
	Executable string // of ModelDock itself, which holds the simulated engine
	Host       string // to listen on; empty: 127.0.0.1
	Port       int
	Cards      []Card
	Weights    string // readable local copy of a file:// source; empty: there is none
	WorkDir    string // the replica's own directory
}

// Card is a card of the place with what the replica may use of it.
type Card struct {
	UUID      string
	MiB       int64
	TotalMiB  int64
	Simulated bool
}

// Plan is everything that is needed to run and judge one replica.
type Plan struct {
	Command      []string // the first may be a bare name, to be found on PATH
	Env          []string // K=V, sorted by K
	HealthPath   string   // answers 200 once requests are served
	IdentityPath string   // lists the served models, in OpenAI's form
	Upstream     string   // model name that the engine expects in requests
	NeedsName    bool     // the identity must list Upstream, or this is another server
	LoadTimeout  time.Duration
	Ollama       *OllamaLoad // what must be loaded over Ollama's API first
	Sleeper      *Sleeper    // how it is put to sleep and woken; nil: it is not
}

// OllamaLoad is the step that Ollama needs after its server answers.
type OllamaLoad struct {
	Name string // model name in Ollama
	File string // GGUF to create it from; empty: it is pulled already, or can be
}

// Preset is one engine.
type Preset struct {
	kind        modelspec.Engine
	program     string // what Discover looks for; empty: none is needed
	healthPath  string
	loadTimeout time.Duration
	allowed     map[string]bool // flags that need no allow list; true: takes a value
	command     func(m modelspec.Model, at Place, p *Plan) error
	sleeper     *Sleeper // nil: it cannot sleep
}

// For returns the preset of an engine.
func For(kind modelspec.Engine) (Preset, error) {
	for _, p := range presets() {
		if p.kind == kind {
			return p, nil
		}
	}
	return Preset{}, fmt.Errorf("engine %q is unknown; choose one of %v", kind, modelspec.Engines())
}

// Plan expands the preset for one replica of m.
func (p Preset) Plan(m modelspec.Model, at Place) (Plan, error) {
	plan := Plan{
		HealthPath:   p.healthPath,
		IdentityPath: "/v1/models",
		Upstream:     m.Name,
		NeedsName:    p.kind != modelspec.EngineCustom,
		LoadTimeout:  p.loadTimeout,
	}
	if m.HealthPath != "" {
		plan.HealthPath = m.HealthPath
	}
	env := maps.Clone(m.Env)
	if env == nil {
		env = map[string]string{}
	}
	if err := p.command(m, at, &plan); err != nil {
		return Plan{}, err
	}
	if m.Asleep() > 0 && p.sleeper != nil {
		p.sleeper.enable(&plan)
	}
	for _, kv := range plan.Env { // the preset's own, which a request may set otherwise
		k, v, _ := strings.Cut(kv, "=")
		if _, set := env[k]; !set {
			env[k] = v
		}
	}
	maps.Copy(env, cardEnv(at.Cards))
	fill := replacer(m, at)
	for i, word := range plan.Command {
		plan.Command[i] = fill.Replace(word)
	}
	plan.Env = plan.Env[:0:0]
	for _, k := range slices.Sorted(maps.Keys(env)) {
		plan.Env = append(plan.Env, k+"="+fill.Replace(env[k]))
	}
	return plan, nil
}

// replacer fills the places that a command, its arguments and its environment
// may leave open.
func replacer(m modelspec.Model, at Place) *strings.Replacer {
	var uuids []string
	for _, c := range at.Cards {
		uuids = append(uuids, c.UUID)
	}
	weights := at.Weights
	if weights == "" {
		weights = m.Source
	}
	if weights == "" {
		weights = m.Name
	}
	return strings.NewReplacer(
		"${PORT}", strconv.Itoa(at.Port),
		"${MODEL}", weights,
		"${MODEL_NAME}", m.Name,
		"${GPU_UUID}", strings.Join(uuids, ","),
	)
}

// cardEnv shows the engine its cards and no others. A simulated card is no
// device, so an engine placed on one sees no device at all.
func cardEnv(cards []Card) map[string]string {
	var uuids []string
	for _, c := range cards {
		if !c.Simulated {
			uuids = append(uuids, c.UUID)
		}
	}
	if len(uuids) == 0 {
		return map[string]string{"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "void"}
	}
	list := strings.Join(uuids, ",")
	return map[string]string{"CUDA_VISIBLE_DEVICES": list, "NVIDIA_VISIBLE_DEVICES": list}
}
