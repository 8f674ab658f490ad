package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/modelspec"
)

const loopback = "127.0.0.1"

func (p Place) host() string {
	if p.Host == "" {
		return loopback
	}
	return p.Host
}

// presets is the one list of engines. Arguments of the request stand before
// ours: where a flag is given twice these engines take the last.
func presets() []Preset {
	return []Preset{
		{kind: modelspec.EngineSimulated, healthPath: "/health", loadTimeout: 10 * time.Minute, allowed: simulatedFlags(), command: planSimulated, sleeper: simulatedSleeper()},
		{kind: modelspec.EngineCustom, healthPath: "/health", loadTimeout: 30 * time.Minute, command: planCustom},
		{kind: modelspec.EngineLlamaCpp, program: "llama-server", healthPath: "/health", loadTimeout: 20 * time.Minute, allowed: llamaCppFlags(), command: planLlamaCpp},
		{kind: modelspec.EngineOllama, program: "ollama", healthPath: "/", loadTimeout: 30 * time.Minute, command: planOllama},
		{kind: modelspec.EngineVLLM, program: "vllm", healthPath: "/health", loadTimeout: 30 * time.Minute, allowed: vllmFlags(), command: planVLLM, sleeper: vllmSleeper()},
		{kind: modelspec.EngineSGLang, program: "sglang", healthPath: "/health", loadTimeout: 30 * time.Minute, allowed: sglangFlags(), command: planSGLang},
	}
}

func planSimulated(m modelspec.Model, at Place, p *Plan) error {
	p.Command = append([]string{at.Executable, simulated.Subcommand}, m.Args...)
	p.Command = append(p.Command, "--host", at.host(), "--port", strconv.Itoa(at.Port), "--model", m.Name,
		"--memory", strconv.FormatInt(m.GPUMemory*int64(m.GPUs), 10))
	return nil
}

func planCustom(m modelspec.Model, _ Place, p *Plan) error {
	if len(m.Command) == 0 {
		return fmt.Errorf(`engine "custom" needs model.command, for example ["my-server","--port","${PORT}"]`)
	}
	p.Command = append(append([]string(nil), m.Command...), m.Args...)
	return nil
}

func planLlamaCpp(m modelspec.Model, at Place, p *Plan) error {
	src, err := ParseSource(m.Source)
	if err != nil {
		return err
	}
	p.Command = append([]string{"llama-server"}, m.Args...)
	switch {
	case src.Scheme == "file" && at.Weights != "":
		p.Command = append(p.Command, "-m", at.Weights)
	case src.Scheme == "hf":
		p.Command = append(p.Command, "-hf", src.Rest)
	default:
		return needsSource(m, "file:///path/to/model.gguf or hf://org/model")
	}
	p.Command = append(p.Command, "--host", at.host(), "--port", strconv.Itoa(at.Port), "--alias", m.Name)
	p.Env = []string{"LLAMA_CACHE=" + filepath.Join(at.WorkDir, "cache")}
	return nil
}

// ollamaNameMax is the longest model name that Ollama accepts.
const ollamaNameMax = 80

func planOllama(m modelspec.Model, at Place, p *Plan) error {
	src, err := ParseSource(m.Source)
	if err != nil {
		return err
	}
	load := &OllamaLoad{}
	switch {
	case src.Scheme == "file" && at.Weights != "":
		load.Name, load.File = ollamaName(m.Name), at.Weights
	case src.Scheme == "hf":
		load.Name = "hf.co/" + src.Rest
	case src.Scheme == "" && src.Rest != "":
		load.Name = src.Rest
	case src.Scheme == "":
		load.Name = m.Name
	default:
		return needsSource(m, "file:///path/to/model.gguf, hf://org/model or the name of a model that Ollama has")
	}
	p.Ollama, p.Upstream = load, load.Name
	p.Command = append([]string{"ollama", "serve"}, m.Args...)
	p.Env = []string{
		"OLLAMA_HOST=" + at.host() + ":" + strconv.Itoa(at.Port),
		"OLLAMA_MODELS=" + filepath.Join(at.WorkDir, "ollama"),
		// The reservation pays for the memory until its release, so the
		// model stays loaded until then.
		"OLLAMA_KEEP_ALIVE=-1",
		"OLLAMA_MAX_LOADED_MODELS=1",
		"OLLAMA_NOPRUNE=1",
	}
	return nil
}

func ollamaName(name string) string {
	if len(name) <= ollamaNameMax {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "m-" + hex.EncodeToString(sum[:])[:20]
}

func planVLLM(m modelspec.Model, at Place, p *Plan) error {
	weights, err := hubOrDirectory(m, at)
	if err != nil {
		return err
	}
	p.Command = append([]string{"vllm", "serve", weights}, m.Args...)
	p.Command = append(p.Command, "--host", at.host(), "--port", strconv.Itoa(at.Port), "--served-model-name", m.Name)
	if len(at.Cards) > 1 {
		p.Command = append(p.Command, "--tensor-parallel-size", strconv.Itoa(len(at.Cards)))
	}
	if share, ok := memoryShare(at.Cards); ok {
		p.Command = append(p.Command, "--gpu-memory-utilization", share)
	}
	p.Env = []string{"HF_HOME=" + filepath.Join(at.WorkDir, "hf"), "VLLM_NO_USAGE_STATS=1"}
	return nil
}

func planSGLang(m modelspec.Model, at Place, p *Plan) error {
	weights, err := hubOrDirectory(m, at)
	if err != nil {
		return err
	}
	p.Command = append([]string{"python3", "-m", "sglang.launch_server"}, m.Args...)
	p.Command = append(p.Command, "--model-path", weights, "--served-model-name", m.Name,
		"--host", at.host(), "--port", strconv.Itoa(at.Port))
	if len(at.Cards) > 1 {
		p.Command = append(p.Command, "--tp-size", strconv.Itoa(len(at.Cards)))
	}
	if share, ok := memoryShare(at.Cards); ok {
		p.Command = append(p.Command, "--mem-fraction-static", share)
	}
	p.Env = []string{"HF_HOME=" + filepath.Join(at.WorkDir, "hf")}
	return nil
}

func hubOrDirectory(m modelspec.Model, at Place) (string, error) {
	src, err := ParseSource(m.Source)
	if err != nil {
		return "", err
	}
	switch {
	case src.Scheme == "file" && at.Weights != "":
		return at.Weights, nil
	case src.Scheme == "hf":
		return src.Rest, nil
	}
	return "", needsSource(m, "hf://org/model or file:///path/to/directory")
}

// memoryShare tells engines that take a share of the whole card, and most of
// it unless told otherwise, to keep to what was placed. It rounds down.
func memoryShare(cards []Card) (string, bool) {
	least := int64(-1)
	for _, c := range cards {
		if c.Simulated || c.TotalMiB <= 0 {
			return "", false
		}
		if share := c.MiB * 1000 / c.TotalMiB; least < 0 || share < least {
			least = share
		}
	}
	if least <= 0 {
		return "", false
	}
	return strconv.FormatFloat(float64(least)/1000, 'f', 3, 64), true
}

func needsSource(m modelspec.Model, want string) error {
	return fmt.Errorf("engine %q cannot serve model.source %q: give %s", m.Engine, m.Source, want)
}
