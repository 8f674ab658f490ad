// Package modelspec holds the noun that all three accounts share: the model a
// tenant asks to have served, with its defaults, its validation and its
// canonical form. It decides nothing and does no I/O.
package modelspec

// Model is a complete request for one served model: every default is filled
// in, so that leaving a default out and writing it compare equal.
type Model struct {
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	Class      Class             `json:"class"`
	Workload   Workload          `json:"workload"`
	Engine     Engine            `json:"engine"`
	Image      string            `json:"image,omitempty"`
	Source     string            `json:"source,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Command    []string          `json:"command,omitempty"`
	Port       int               `json:"port,omitempty"`
	HealthPath string            `json:"healthPath,omitempty"`
	GPUMemory  int64             `json:"gpuMemoryMiB"` // MiB per card
	GPUs       int               `json:"gpus"`         // cards per replica
	Replicas   Replicas          `json:"replicas"`
	Traffic    Traffic           `json:"traffic"`
	ColdStart  ColdStart         `json:"coldStart"`
	Cache      Cache             `json:"cache"`
	Scaling    *Scaling          `json:"scaling,omitempty"`
}

// Replicas bounds the number of running copies: 0 ≤ Min ≤ Max, Max ≥ 1.
type Replicas struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Funded is the number of replicas an admission pays for: a model that may
// sleep still pays for one, so that its wake-up cannot be starved.
func (r Replicas) Funded() int { return max(1, r.Min) }

// Traffic is this version's share (0…1000) among the versions of one name.
type Traffic struct {
	Weight int `json:"weight"`
}

// ColdStart bounds what callers may wait for: seconds, and waiters.
type ColdStart struct {
	TimeoutSeconds int `json:"timeoutSeconds"`
	MaxWaiting     int `json:"maxWaiting"`
}

// Cache configures the exact-match result cache: how long an answer is kept
// where it is on.
type Cache struct {
	Enabled    bool `json:"enabled"`
	TTLSeconds int  `json:"ttlSeconds,omitempty"`
}

// Class is a bundle of defaults for placement, scaling and routing.
type Class string

// The classes.
const (
	ClassLLM         Class = "llm"
	ClassVision      Class = "vision"
	ClassRecommender Class = "recommender"
)

// Workload tells whether latency (online) or throughput (batch) counts.
type Workload string

// The workloads.
const (
	WorkloadOnline Workload = "online"
	WorkloadBatch  Workload = "batch"
)

// Engine names the preset that starts, probes and measures the model.
type Engine string

// The engine presets.
const (
	EngineSimulated Engine = "simulated"
	EngineCustom    Engine = "custom"
	EngineLlamaCpp  Engine = "llamacpp"
	EngineOllama    Engine = "ollama"
	EngineVLLM      Engine = "vllm"
	EngineSGLang    Engine = "sglang"
)

// Engines lists every preset in the order shown to people.
func Engines() []Engine {
	return []Engine{EngineSimulated, EngineCustom, EngineLlamaCpp, EngineOllama, EngineVLLM, EngineSGLang}
}
