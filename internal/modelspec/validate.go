package modelspec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// FieldError says which field of the input is wrong and why, in words a
// person can act on. Field is the JSON path, for example "model.replicas.min".
type FieldError struct {
	Field   string
	Message string
}

func (e *FieldError) Error() string { return e.Message }

// Limits on what a request may carry.
const (
	MaxName      = 128
	MaxGPUMemory = 16 << 20 // MiB: 16 TiB per card
	MaxGPUs      = 64
	MaxReplicas  = 1000
	MaxWeight    = 1000
	MaxColdStart = 3600 // seconds
	MaxWaiting   = 100_000
	MaxCache     = 7 * 24 * 3600 // seconds
	MaxArgs      = 256
	MaxArgBytes  = 8192
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)
	pathPattern = regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ValidName reports whether s may be an id, a model name, a version, a tenant
// or a pool: 1–128 of [A-Za-z0-9._-], first and last alphanumeric.
func ValidName(s string) bool { return namePattern.MatchString(s) }

// CheckName returns a FieldError for field unless s is a valid name.
func CheckName(field, s string) error {
	if ValidName(s) {
		return nil
	}
	return &FieldError{field, fmt.Sprintf("%s must be 1 to %d characters of [A-Za-z0-9._-], first and last alphanumeric; got %q", field, MaxName, clip(s))}
}

// Validate returns the first FieldError of a model whose defaults are filled in.
func (m Model) Validate() error {
	for _, check := range []func() error{m.checkNames, m.checkKinds, m.checkSizes, m.checkScaling, m.checkEngine} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (m Model) checkNames() error {
	if err := CheckName("model.name", m.Name); err != nil {
		return err
	}
	return CheckName("model.version", m.Version)
}

func (m Model) checkKinds() error {
	if !slices.Contains([]Class{ClassLLM, ClassVision, ClassRecommender}, m.Class) {
		return oneOf("model.class", string(m.Class), "llm, vision, recommender")
	}
	if !slices.Contains([]Workload{WorkloadOnline, WorkloadBatch}, m.Workload) {
		return oneOf("model.workload", string(m.Workload), "online, batch")
	}
	if !slices.Contains(Engines(), m.Engine) {
		return oneOf("model.engine", string(m.Engine), "simulated, custom, llamacpp, ollama, vllm, sglang")
	}
	return nil
}

func (m Model) checkSizes() error {
	ranges := []struct {
		field     string
		v, lo, hi int64
	}{
		{"model.gpuMemoryMiB", m.GPUMemory, 1, MaxGPUMemory},
		{"model.gpus", int64(m.GPUs), 1, MaxGPUs},
		{"model.replicas.min", int64(m.Replicas.Min), 0, MaxReplicas},
		{"model.replicas.max", int64(m.Replicas.Max), 1, MaxReplicas},
		{"model.traffic.weight", int64(m.Traffic.Weight), 0, MaxWeight},
		{"model.coldStart.timeoutSeconds", int64(m.ColdStart.TimeoutSeconds), 1, MaxColdStart},
		{"model.coldStart.maxWaiting", int64(m.ColdStart.MaxWaiting), 0, MaxWaiting},
		{"model.port", int64(m.Port), 0, 65535},
		{"model.cache.ttlSeconds", int64(m.Cache.TTLSeconds), m.Cache.least(), MaxCache},
	}
	for _, r := range ranges {
		if r.v < r.lo || r.v > r.hi {
			return &FieldError{r.field, fmt.Sprintf("%s must be an integer from %d to %d; got %d", r.field, r.lo, r.hi, r.v)}
		}
	}
	if m.Replicas.Max < m.Replicas.Min {
		return &FieldError{"model.replicas.max", fmt.Sprintf("model.replicas.max (%d) is below model.replicas.min (%d)", m.Replicas.Max, m.Replicas.Min)}
	}
	return nil
}

// least is how long answers are kept at least, where they are kept.
func (c Cache) least() int64 {
	if c.Enabled {
		return 1
	}
	return 0
}

func (m Model) checkEngine() error {
	if m.Engine == EngineCustom && len(m.Command) == 0 {
		return &FieldError{"model.command", `engine "custom" needs model.command, for example ["my-server","--port","${PORT}"]`}
	}
	if m.Engine != EngineCustom && len(m.Command) > 0 {
		return &FieldError{"model.command", fmt.Sprintf(`model.command belongs to engine "custom"; engine %q has its own command`, m.Engine)}
	}
	if m.HealthPath != "" && !pathPattern.MatchString(m.HealthPath) {
		return &FieldError{"model.healthPath", fmt.Sprintf("model.healthPath must match ^/[A-Za-z0-9._/-]*$; got %q", clip(m.HealthPath))}
	}
	for field, list := range map[string][]string{"model.args": m.Args, "model.command": m.Command} {
		if len(list) > MaxArgs {
			return &FieldError{field, fmt.Sprintf("%s has %d entries; at most %d are allowed", field, len(list), MaxArgs)}
		}
		for _, a := range list {
			if len(a) > MaxArgBytes || strings.ContainsRune(a, 0) {
				return &FieldError{field, fmt.Sprintf("an entry of %s is longer than %d bytes or contains a NUL", field, MaxArgBytes)}
			}
		}
	}
	for k, v := range m.Env {
		if !envPattern.MatchString(k) || strings.ContainsRune(v, 0) {
			return &FieldError{"model.env", fmt.Sprintf("model.env: %q is not a valid environment variable", clip(k))}
		}
	}
	if strings.ContainsAny(m.Source, "\x00\n\r") || len(m.Source) > 4096 {
		return &FieldError{"model.source", "model.source is longer than 4096 bytes or contains a control character"}
	}
	return nil
}

func oneOf(field, got, want string) error {
	return &FieldError{field, fmt.Sprintf("%s must be one of %s; got %q", field, want, clip(got))}
}

func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}
