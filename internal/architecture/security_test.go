package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every test that docs/security.md names is there.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = false
	}
	if len(named) < 30 {
		t.Fatalf("the page names only %d tests", len(named))
	}
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z]+)\(`)
	err = filepath.WalkDir(root(t), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"node_modules", ".git", "data", "bin"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			if _, ok := named[m[1]]; ok {
				named[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range named {
		if !found {
			t.Errorf("docs/security.md names %s, which is nowhere", name)
		}
	}
}
