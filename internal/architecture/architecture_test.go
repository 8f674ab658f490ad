// Package architecture keeps the import rules, the folder names and the map in
// ARCHITECTURE.md true. It holds tests alone.
package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "modeldock.io/"

// pack is one package as `go list` shows it.
type pack struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

func packages(t *testing.T) []pack {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pack
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pack
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		list = append(list, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// cores are pure: they import the standard library and the nouns listed here.
func cores() map[string][]string {
	return map[string][]string{
		"internal/modelspec":        nil,
		"internal/strictjson":       nil,
		"internal/strictpath":       nil,
		"internal/placement":        {"internal/modelspec"},
		"internal/device/measured":  nil,
		"internal/fair":             nil,
		"internal/budget":           {"internal/fair", "internal/modelspec"},
		"internal/delivery":         {"internal/budget", "internal/modelspec"},
		"internal/traffic":          nil,
		"internal/traffic/route":    {"internal/traffic"},
		"internal/traffic/waitroom": {"internal/traffic"},
		"internal/traffic/limit":    {"internal/traffic"},
		"internal/traffic/cache":    nil,
		"internal/elastic":          {"internal/modelspec"},
		"internal/elastic/simulate": {"internal/elastic", "internal/modelspec"},
		"internal/evidence":         {"internal/budget", "internal/delivery", "internal/traffic"},
	}
}

func TestCoresImportOnlyListedNouns(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		allowed, core := cores()[p.ImportPath]
		if !core {
			continue
		}
		for _, imp := range p.Imports {
			own, internal := strings.CutPrefix(imp, module)
			switch {
			case internal && !slices.Contains(allowed, own):
				t.Errorf("%s is a core and imports %s; only %v are listed for it in ARCHITECTURE.md", p.ImportPath, own, allowed)
			case !internal && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				t.Errorf("%s is a core and imports %s; cores use the standard library", p.ImportPath, imp)
			}
		}
	}
}

// forbidden are edges that must not exist: importer prefix → imported prefix.
func forbidden() [][2]string {
	return [][2]string{
		{"internal/traffic", "internal/budget"},
		{"internal/traffic", "internal/delivery"},
		{"internal/traffic", "internal/evidence"},
		{"internal/", "internal/app"},
		{"bench", "internal/app"},
		{"", "scheduler"},
	}
}

func TestForbiddenEdges(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			own, internal := strings.CutPrefix(imp, module)
			if !internal {
				continue
			}
			for _, f := range forbidden() {
				if strings.HasPrefix(p.ImportPath, f[0]) && (own == f[1] || strings.HasPrefix(own, f[1]+"/")) {
					t.Errorf("%s imports %s, which the architecture forbids", p.ImportPath, own)
				}
			}
		}
	}
}

// keepers says which packages may import a third-party module.
func keepers() map[string][]string {
	cluster := []string{"api/", "internal/kube", "internal/delivery/kube", "internal/traffic/route/kube", "internal/delivery/operator", "internal/device", "internal/elastic", "internal/preflight", "internal/app", "test/"}
	return map[string][]string{
		"modernc.org/sqlite":             {"internal/budget/sqlledger", "internal/app", "bench/", "test/"},
		"github.com/go-sql-driver":       {"internal/budget/sqlledger", "internal/app", "bench/", "test/"},
		"github.com/redis/go-redis":      {"internal/traffic/redislink", "internal/traffic/limit/redislimit", "internal/traffic/cache/rediscache", "internal/device/measured/redismeasured", "test/"},
		"k8s.io/":                        cluster,
		"sigs.k8s.io/controller-runtime": cluster,
		"github.com/gin-gonic/gin":       {"internal/api"},
		"github.com/spf13/cobra":         {"cmd/"},
		"github.com/NVIDIA/go-nvml":      {"cmd/modeldock-nvml"},
		"github.com/openai/openai-go":    {"test/"},
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for lib, where := range keepers() {
				if strings.HasPrefix(imp, lib) && !slices.ContainsFunc(where, func(w string) bool { return strings.HasPrefix(p.ImportPath, w) }) {
					t.Errorf("%s imports %s; only %v may", p.ImportPath, imp, where)
				}
			}
		}
	}
}

func TestNoGrabBagFolders(t *testing.T) {
	t.Parallel()
	bad := []string{"util", "utils", "common", "helpers", "types", "models", "pkg", "misc"}
	for _, p := range packages(t) {
		if slices.Contains(bad, path.Base(p.ImportPath)) {
			t.Errorf("%s: a folder says what it holds; %s does not", p.ImportPath, path.Base(p.ImportPath))
		}
	}
}

func TestEveryPackageIsOnTheMap(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		if !strings.Contains(string(text), "`"+p.ImportPath+"`") {
			t.Errorf("%s is not named in ARCHITECTURE.md", p.ImportPath)
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	const longest = 600
	err := filepath.WalkDir(root(t), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"node_modules", ".git", "data", "bin"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".gen.go") || strings.Contains(name, "query/") {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if n := strings.Count(string(data), "\n"); n > longest {
			t.Errorf("%s has %d lines; split files above %d by noun or phase", name, n, longest)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
