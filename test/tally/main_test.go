package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// suite writes a module whose packages end in every way there is.
func suite(t *testing.T, packages map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module suite\n\ngo 1.26\n")
	for name, text := range packages {
		write(name+"/x_test.go", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\nvar _ = strings.Repeat\n\n"+text)
	}
	return dir
}

// count runs go test on the suite through a tally.
func count(t *testing.T, dir string) (*tally, string) {
	t.Helper()
	cmd := command([]string{"-C", dir, "-count=1", "./..."})
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, _ := cmd.Output() // it fails, that is what is counted
	var shown bytes.Buffer
	c := newTally(&shown)
	if err := c.read(bytes.NewReader(out)); err != nil {
		t.Fatal(err)
	}
	return c, shown.String()
}

func TestEveryEndIsCountedAndShown(t *testing.T) {
	t.Parallel()
	c, shown := count(t, suite(t, map[string]string{
		"good":   "func TestA(t *testing.T) { t.Log(\"quiet\") }\nfunc TestB(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }\nfunc TestC(t *testing.T) { t.Skip(\"no card\") }\n",
		"bad":    "func TestD(t *testing.T) { t.Fatal(\"wanted 1, got 2\") }\nfunc TestE(t *testing.T) {}\n",
		"nobody": "func TestF(t *testing.T) { var n int = \"x\" }\n",
		"gone":   "func TestG(t *testing.T) { println(\"last words\"); os.Exit(3) }\nfunc TestH(t *testing.T) {}\n",
		"panics": "func TestI(t *testing.T) { panic(\"boom\") }\n",
	}))
	if c.passed != 4 || c.failed != 4 || c.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped; want 4, 4, 1", c.passed, c.failed, c.skipped)
	}
	for _, want := range []string{"ok   suite/good", "no card", "wanted 1, got 2", "cannot use \"x\"", "last words", "panic: boom", "--- fail suite/nobody", "--- unfinished suite/gone TestG", "--- fail suite/bad TestD"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "quiet") {
		t.Errorf("what passed is shown:\n%s", shown)
	}
}

func TestLinesOfAnyLengthAndOtherLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20<<20)
	var shown bytes.Buffer
	c := newTally(&shown)
	text := "go: downloading something\n" + `{"Action":"output","Package":"p","Test":"T","Output":"` + long + `\n"}` + "\n" +
		`{"Action":"fail","Package":"p","Test":"T"}` + "\n" + `{"Action":"fail","Package":"p"}`
	if err := c.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if c.failed != 1 || !strings.Contains(shown.String(), "go: downloading something\n") || !strings.Contains(shown.String(), long) {
		t.Errorf("%d failed, %d bytes shown", c.failed, shown.Len())
	}
	if len(c.output) != 0 {
		t.Errorf("%d outputs are kept after the end", len(c.output))
	}
}

func TestTallyFileIsAppendedTo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally")
	for _, c := range []*tally{{passed: 1, failed: 2, skipped: 3}, {passed: 4}} {
		if err := c.append(path); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "1 2 3\n4 0 0\n" {
		t.Errorf("%q, %v", data, err)
	}
	var shown bytes.Buffer
	c := newTally(&shown)
	c.skipped = 5
	if err := c.append(""); err != nil || shown.String() != "0 passed, 0 failed, 5 skipped\n" {
		t.Errorf("%q, %v", shown.String(), err)
	}
	if c.append(filepath.Join(path, "none")) == nil {
		t.Error("a file that cannot be written is no error")
	}
}
