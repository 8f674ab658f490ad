package local

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"modeldock.io/internal/modelspec"
)

// program finds what an engine is started from. What a tenant names is looked
// for with rights that its engine does not have, so that whatever keeps the
// engine's user from a program has the same words; the log has the reason.
func (t *Target) program(who user, kind modelspec.Engine, name string) (string, error) {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return "", fmt.Errorf("engine %q: the program %q must be an absolute path, or a name on the PATH of modeldock", kind, name)
	}
	path, err := findProgram(name)
	// Our own program is handed to the process: its user need not get there.
	if err == nil && who.UID > 0 && kind != modelspec.EngineSimulated {
		err = startableBy(path, who.UID)
	}
	switch {
	case err == nil:
		return path, nil
	case who.UID == 0:
		return "", fmt.Errorf("engine %q needs the program %s, which cannot be started from here (%w): install it, or put it on the PATH of modeldock", kind, name, err)
	}
	t.log.Warn("an engine's program cannot be started", "program", name, "tenant", who.Tenant, "err", err)
	return "", fmt.Errorf("engine %q needs the program %s, which is not there, or cannot be started by uid %d of tenant %s: that user must be able to execute it and to enter every folder above it; install it so, or put it on the PATH of modeldock (ModelDock's log says more)", kind, name, who.UID, who.Tenant)
}

// findProgram takes absolute paths and names on PATH: what stands beside
// ModelDock's working directory is no part of a request.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("look for it: %w", err)
	}
	return path, nil
}

// startableBy looks at the modes along the real path, as readableBy does.
func startableBy(path string, uid int) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("look for it: %w", err)
	}
	for part := path; ; part = filepath.Dir(part) {
		if !allows(part, uid, 0o1) {
			return fmt.Errorf("%s: %w for uid %d", part, fs.ErrPermission, uid)
		}
		if part == filepath.Dir(part) {
			break
		}
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", path)
	}
	return nil
}
