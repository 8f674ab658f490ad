package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrMissing says that a program is neither on this machine nor in the cache.
var ErrMissing = errors.New("programs of the test cluster are missing")

// versionWait bounds how long a program may take to print its version.
const versionWait = 20 * time.Second

var versionNumber = regexp.MustCompile(`\bv?(\d+\.\d+)\.\d+`)

// CacheDir is where scripts keep what is built once per version.
func CacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "modeldock"), nil
}

// dir is the recipe's place in the cache.
func (r Recipe) dir(cache string) string {
	return filepath.Join(cache, r.Name+"-"+r.Version)
}

// Find returns the path of each named program: from KUBEBUILDER_ASSETS or PATH
// where its minor version is the recipe's, else from the cache. The error wraps
// ErrMissing and lists all that are found nowhere.
func Find(ctx context.Context, cache string, names ...string) (map[string]string, error) {
	found := make(map[string]string, len(names))
	var missing, recipes []string
	for _, name := range names {
		recipe, program, ok := lookUp(name)
		if !ok {
			return nil, fmt.Errorf("find %s: no recipe builds it", name)
		}
		path, err := recipe.find(ctx, cache, program)
		if errors.Is(err, ErrMissing) {
			missing = append(missing, name+" "+recipe.Version)
			if !slices.Contains(recipes, recipe.Name) {
				recipes = append(recipes, recipe.Name)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		found[name] = path
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s; build them with ./scripts/cluster-build.sh %s", ErrMissing, strings.Join(missing, ", "), strings.Join(recipes, " "))
	}
	return found, nil
}

func lookUp(name string) (Recipe, Program, bool) {
	for _, r := range Recipes() {
		for _, p := range r.Programs {
			if p.Name == name {
				return r, p, true
			}
		}
	}
	return Recipe{}, Program{}, false
}

func (r Recipe) find(ctx context.Context, cache string, p Program) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if path := filepath.Join(assets, p.Name); r.fits(ctx, path, p) {
			return filepath.Abs(path)
		}
	}
	if path, err := exec.LookPath(p.Name); err == nil && r.fits(ctx, path, p) {
		return filepath.Abs(path)
	}
	path := filepath.Join(r.dir(cache), p.Name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %s", ErrMissing, p.Name)
	}
	return path, nil
}

// fits runs the program and compares major and minor version with the recipe's.
// One that cannot be run or says nothing does not fit.
func (r Recipe) fits(ctx context.Context, path string, p Program) bool {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, p.VersionArgs...).Output()
	if err != nil {
		return false
	}
	have, want := versionNumber.FindSubmatch(out), versionNumber.FindStringSubmatch(r.Version)
	return have != nil && want != nil && string(have[1]) == want[1]
}
