// Command tally runs `go test -json` with its arguments, shows packages and
// the output of what failed, and appends "passed failed skipped" to the file
// in TALLY_FILE, so that a script can close with one line for all its suites.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

type tally struct {
	passed, failed, skipped int
	output                  map[string][]string
}

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	t := tally{output: map[string][]string{}}
	t.read(out)
	err = cmd.Wait()
	if err != nil && t.failed == 0 {
		t.failed = 1 // it did not even build
	}
	if err := t.append(os.Getenv("TALLY_FILE")); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	if err != nil {
		os.Exit(1)
	}
}

func (t *tally) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		t.take(e)
	}
}

func (t *tally) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		t.output[key] = append(t.output[key], e.Output)
	case "pass", "skip", "fail":
		t.end(e, key)
		delete(t.output, key)
	}
}

func (t *tally) end(e event, key string) {
	if e.Action != "pass" && (e.Test != "" || e.Action == "fail") {
		fmt.Printf("--- %s %s (%.1fs)\n", e.Action, key, e.Elapsed)
		for _, line := range t.output[key] {
			fmt.Print(line)
		}
	}
	if e.Test == "" {
		if e.Action == "fail" {
			t.unfinished(e.Package)
		}
		if e.Action == "pass" {
			fmt.Printf("ok   %s %.1fs\n", e.Package, e.Elapsed)
		}
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
	case "skip":
		t.skipped++
	}
}

// unfinished shows what tests had said that were still running when their
// package failed: after a crash or a time-out the reason stands there.
func (t *tally) unfinished(pkg string) {
	for key, lines := range t.output {
		if !strings.HasPrefix(key, pkg+" ") || key == pkg+" " {
			continue
		}
		fmt.Printf("--- unfinished %s\n", key)
		for _, line := range lines {
			fmt.Print(line)
		}
		delete(t.output, key)
	}
}

func (t *tally) append(path string) error {
	if path == "" {
		fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
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
