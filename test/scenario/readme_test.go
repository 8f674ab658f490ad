package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// The README's first ten minutes, run line by line as they stand there.
func TestFirstTenMinutesOfTheREADME(t *testing.T) {
	t.Parallel()
	for readme, section := range map[string]string{"README.md": "## The first ten minutes", "README.zh-CN.md": "## 最初十分钟"} {
		t.Run(readme, func(t *testing.T) {
			t.Parallel()
			m := onemachine.New(t)
			for _, line := range commands(t, filepath.Join("..", "..", readme), section) {
				run(t, m, line)
			}
			scenario.VerifyClean(t, m)
		})
	}
}

// exits are the README's commands that are meant to end with something else
// than 0: a request that the quota blocks, and a payload that changed.
func exits() map[string]int {
	return map[string]int{
		"modeldock explain demo-c":              4,
		"modeldock submit --id demo-b --cost 2": 5,
	}
}

// commands are the lines of a section's code blocks, with what a backslash
// continues joined and comments left to the shell.
func commands(t *testing.T, path, section string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), section)
	if !found {
		t.Fatalf("%s has no section %q", path, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var lines []string
	for i, block := range strings.Split(rest, "```") {
		if i%2 == 1 {
			lines = append(lines, strings.Split(strings.ReplaceAll(strings.TrimSpace(block), "\\\n", " "), "\n")...)
		}
	}
	if len(lines) < 10 {
		t.Fatalf("%s: only %d commands", path, len(lines))
	}
	return lines
}

// run executes one line in a shell that keeps what earlier lines exported.
func run(t *testing.T, m *onemachine.Machine, line string) {
	t.Helper()
	line = strings.NewReplacer("http://127.0.0.1:8080", m.API(), "data/keys.json", filepath.Join(m.Data(), "keys.json"), "$PWD/bin", filepath.Dir(m.Binary(t))).Replace(line)
	command, _, _ := strings.Cut(line, "  #")
	command = strings.TrimSpace(command)
	if command == "" {
		return
	}
	profile := filepath.Join(filepath.Dir(m.Data()), "profile")
	cmd := exec.Command("bash", "-c", "touch "+profile+"; . "+profile+"; "+line+"\ncode=$?; export -p >"+profile+"; exit $code")
	cmd.Env = append(os.Environ(), m.Environment()...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", command, err)
	}
	if code, want := cmd.ProcessState.ExitCode(), exits()[command]; code != want {
		t.Errorf("%s: exit %d, want %d:\n%s", command, code, want, out)
	}
	if strings.HasPrefix(command, "curl") && !strings.Contains(string(out), "data: [DONE]") {
		t.Errorf("%s: no [DONE]:\n%s", command, out)
	}
}
