package engine

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/modelspec"
)

// Parallel is how many requests one replica of m runs at once, as far as its
// arguments say; what comes beyond that waits inside the engine. 0 means that
// they do not say: engines choose by the memory they find.
func Parallel(m modelspec.Model) int {
	switch m.Engine {
	case modelspec.EngineSimulated:
		o, err := simulated.ParseOptions(append(slices.Clone(m.Args), "--model", m.Name), io.Discard)
		if err != nil {
			return 0 // it will not start
		}
		return o.Concurrency
	case modelspec.EngineVLLM:
		return lastNumber(m.Args, "--max-num-seqs")
	case modelspec.EngineSGLang:
		return lastNumber(m.Args, "--max-running-requests")
	case modelspec.EngineLlamaCpp:
		return lastNumber(m.Args, "-np", "--parallel")
	case modelspec.EngineOllama, modelspec.EngineCustom:
	}
	return 0
}

// lastNumber is the value of the last of these flags: engines take the last.
func lastNumber(args []string, names ...string) int {
	found := 0
	for i, arg := range args {
		name, value, inline := strings.Cut(arg, "=")
		if !slices.Contains(names, name) {
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			found = n
		}
	}
	return found
}
