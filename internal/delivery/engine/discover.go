package engine

import (
	"os/exec"

	"modeldock.io/internal/modelspec"
)

// Found is an engine that this machine can start.
type Found struct {
	Engine modelspec.Engine
	Path   string // of its program; empty for the simulated engine, which is built in
}

// Discover lists the engines whose program is on PATH, and the simulated one.
// custom is not listed: it needs nothing but a command.
func Discover() []Found {
	var found []Found
	for _, p := range presets() {
		switch {
		case p.kind == modelspec.EngineSimulated:
			found = append(found, Found{Engine: p.kind})
		case p.program != "":
			if path, err := exec.LookPath(p.program); err == nil {
				found = append(found, Found{Engine: p.kind, Path: path})
			}
		}
	}
	return found
}
