// Command tally runs `go test -json` with its arguments, shows packages and
// the output of what failed, and appends "passed failed skipped" to the file
// in TALLY_FILE, so that a script can close with one line for all its suites.
// With -C DIR as its first arguments it tests the module in that folder.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events, instead of Package
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string // the ImportPath that made the package fail
}

type tally struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[string][]string // by package and test, or by import path
	failures                map[string]int      // failed tests by package
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: map[string][]string{}, failures: map[string]int{}}
}

func main() {
	cmd := command(os.Args[1:])
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	t := newTally(os.Stdout)
	err = errors.Join(t.read(out), cmd.Wait())
	if err != nil && t.failed == 0 {
		t.failed = 1 // it did not even begin
	}
	if err := t.append(os.Getenv("TALLY_FILE")); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	if err != nil || t.failed > 0 {
		os.Exit(1)
	}
}

// command is the go command of these arguments.
func command(args []string) *exec.Cmd {
	dir := ""
	if len(args) > 1 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	return cmd
}

// read takes events until r ends; lines of any length.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case strings.TrimSpace(line) == "":
		case json.Unmarshal([]byte(line), &e) != nil:
			t.print("%s\n", strings.TrimSuffix(line, "\n"))
		default:
			t.take(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (t *tally) print(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *tally) take(e event) {
	switch {
	case e.Action == "build-output":
		t.output[e.ImportPath] = append(t.output[e.ImportPath], e.Output)
	case e.Action == "output":
		t.output[key(e)] = append(t.output[key(e)], e.Output)
	case e.Action != "pass" && e.Action != "skip" && e.Action != "fail":
	case e.Test == "":
		t.endPackage(e)
	default:
		t.endTest(e)
	}
}

func key(e event) string { return e.Package + " " + e.Test }

func (t *tally) endTest(e event) {
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
		t.failures[e.Package]++
	case "skip":
		t.skipped++
	}
	if e.Action != "pass" {
		t.show(e, key(e))
	}
	delete(t.output, key(e))
}

// endPackage counts a package that failed although none of its tests says so:
// it does not build, or it ended in the middle of a test.
func (t *tally) endPackage(e event) {
	switch e.Action {
	case "pass":
		t.print("ok   %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		if t.failures[e.Package] == 0 {
			t.failed++
		}
		for _, k := range t.unfinished(e.Package) {
			t.print("--- unfinished %s\n", k)
			t.say(k)
		}
		t.show(e, e.FailedBuild, key(e))
	}
	for _, k := range append(t.unfinished(e.Package), key(e)) {
		delete(t.output, k)
	}
}

// unfinished names the tests that still ran when their package ended: after a
// crash or a time-out the reason stands in what they had said.
func (t *tally) unfinished(pkg string) []string {
	var keys []string
	for k := range t.output {
		if strings.HasPrefix(k, pkg+" ") && k != pkg+" " {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (t *tally) show(e event, keys ...string) {
	t.print("--- %s %s (%.1fs)\n", e.Action, strings.TrimSpace(key(e)), e.Elapsed)
	for _, k := range keys {
		t.say(k)
	}
}

func (t *tally) say(key string) {
	for _, line := range t.output[key] {
		t.print("%s", line)
	}
}

func (t *tally) append(path string) error {
	if path == "" {
		t.print("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the tally file: %w", err)
	}
	if _, err := fmt.Fprintln(f, t.passed, t.failed, t.skipped); err != nil {
		return fmt.Errorf("write the tally file: %w", err)
	}
	return f.Close()
}
