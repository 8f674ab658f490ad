package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// baseEnv is all that an engine sees of ModelDock's own environment.
func baseEnv(work string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + filepath.Join(work, "tmp"), "LANG=C.UTF-8",
	}
}

// checkEnv refuses variables of a request by which whoever wrote it would
// decide what code runs, or what is written where, in a process that has
// ModelDock's own rights. Under a tenant's own user they are its own affair.
func checkEnv(who user, env map[string]string) error {
	if who.UID > 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if steersRuntime(name) {
			return fmt.Errorf("model.env sets %s, which would steer a process that runs as ModelDock's own user (uid %d): leave it out, or run ModelDock as root, where every tenant's engines have a user of their own", name, os.Geteuid())
		}
	}
	return nil
}

// steersRuntime tells the variables that the dynamic loader, the C library,
// Go's runtime and ModelDock itself obey, in whatever program.
func steersRuntime(name string) bool {
	switch {
	case strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "MODELDOCK_"):
		return true
	case name == "GLIBC_TUNABLES", name == "GCONV_PATH", name == "LOCPATH":
		return true
	}
	return strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "GOOGLE_")
}
