package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a link to a file of the repository.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// Every link of a page to another one leads to something that is there.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md"} {
		files, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, part := range strings.Split(string(text), "```") {
				if i%2 == 1 {
					continue // code
				}
				for _, m := range link.FindAllStringSubmatch(part, -1) {
					seen++
					if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
						t.Errorf("%s leads to %s, which is not there", file, m[1])
					}
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d links were found", seen)
	}
}
