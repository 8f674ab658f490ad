package engine

import (
	"flag"
	"strings"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/modelspec"
)

// ArgsOutsidePreset returns those of m's arguments that its engine's preset
// does not list, and that therefore need the tenant's allow list. A listed
// flag tunes the engine; it reads or writes no file, opens no port, loads no
// code and does not change what memory was placed. also are names that this
// tenant may use beside, and whether the next argument may be their value: one
// that takes none must not carry in what the engine would read by itself.
func ArgsOutsidePreset(m modelspec.Model, also map[string]bool) []string {
	p, err := For(m.Engine)
	if err != nil {
		return m.Args
	}
	var outside []string
	valueFor := "" // the flag that still waits for its value
	for _, arg := range m.Args {
		if valueFor != "" {
			// A value that looks like a flag is read as one by some engines.
			if !strings.HasPrefix(arg, "-") || isNumber(arg) {
				valueFor = ""
				continue
			}
			valueFor = ""
		}
		name, _, inline := strings.Cut(arg, "=")
		takesValue, listed := p.allowed[name]
		if !listed {
			takesValue, listed = also[name]
		}
		if !listed || (inline && !strings.HasPrefix(name, "--")) {
			outside = append(outside, arg)
			continue
		}
		if takesValue && !inline {
			valueFor = name
		}
	}
	return outside
}

func isNumber(s string) bool {
	return strings.Trim(s, "-.0123456789") == "" && strings.ContainsAny(s, "0123456789")
}

// simulatedFlags are all of the engine's own but those that ModelDock sets.
func simulatedFlags() map[string]bool {
	allowed := map[string]bool{}
	simulated.FlagSet(&simulated.Options{}).VisitAll(func(f *flag.Flag) {
		switch f.Name {
		case "host", "port", "model", "memory", "idle", "enable-sleep-mode":
			return
		}
		b, isBool := f.Value.(interface{ IsBoolFlag() bool })
		allowed["--"+f.Name] = !isBool || !b.IsBoolFlag()
	})
	return allowed
}

func withValue(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

func plus(m map[string]bool, switches ...string) map[string]bool {
	for _, n := range switches {
		m[n] = false
	}
	return m
}

func llamaCppFlags() map[string]bool {
	return plus(withValue(
		"-c", "--ctx-size", "-ngl", "--n-gpu-layers", "--gpu-layers", "-t", "--threads", "-tb", "--threads-batch",
		"-np", "--parallel", "-b", "--batch-size", "-ub", "--ubatch-size", "-n", "--predict", "--n-predict",
		"-ctk", "--cache-type-k", "-ctv", "--cache-type-v", "-fa", "--flash-attn", "-sm", "--split-mode",
		"-ts", "--tensor-split", "--pooling", "--rope-scaling", "--rope-scale", "--rope-freq-base",
		"--temp", "--seed", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--reasoning-format",
	), "-cb", "--cont-batching", "--embedding", "--embeddings", "--reranking", "--jinja", "--no-mmap", "--mlock", "--metrics", "--no-warmup")
}

func vllmFlags() map[string]bool {
	return plus(withValue(
		"--max-model-len", "--dtype", "--quantization", "--kv-cache-dtype", "--max-num-seqs", "--max-num-batched-tokens",
		"--block-size", "--seed", "--task", "--runner", "--pipeline-parallel-size", "--tool-call-parser", "--reasoning-parser",
	), "--enforce-eager", "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-chunked-prefill", "--enable-auto-tool-choice")
}

func sglangFlags() map[string]bool {
	return plus(withValue(
		"--context-length", "--dtype", "--quantization", "--kv-cache-dtype", "--max-running-requests", "--max-total-tokens",
		"--chunked-prefill-size", "--schedule-policy", "--random-seed", "--tool-call-parser", "--reasoning-parser",
	), "--disable-radix-cache", "--disable-cuda-graph", "--enable-metrics", "--is-embedding")
}
