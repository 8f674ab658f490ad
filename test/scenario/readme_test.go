package scenario_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
			for _, line := range commands(t, filepath.Join("..", "..", readme), section, 10) {
				run(t, m, line)
			}
			scenario.VerifyClean(t, m)
		})
	}
}

// pages are the tutorials and how-tos whose commands run as they stand there,
// each section on a platform of its own.
func pages() []page {
	all := []page{
		{"docs/limits.md", "## Limits", nil, 2},
		{"docs/backup.md", "## Back up", nil, 1},
	}
	for _, section := range []string{"The third model", "A retry spends nothing", "A caller who leaves", "Asleep and woken", "Another tenant's model"} {
		all = append(all, page{"docs/experiments.md", "## " + section, nil, 5})
	}
	return append(all, page{"docs/experiments.md", "## Step by step", []string{"--manual"}, 8}, page{"docs/reference.md", "## Step by step", []string{"--manual"}, 4})
}

type page struct {
	file, section string
	flags         []string
	least         int // commands that it has at least
}

func TestCommandsOfThePages(t *testing.T) {
	t.Parallel()
	for _, p := range pages() {
		t.Run(p.file+" "+strings.TrimPrefix(p.section, "## "), func(t *testing.T) {
			t.Parallel()
			m := onemachine.New(t, append(p.flags, "--scale-every", "1s")...)
			lines := commands(t, filepath.Join("..", "..", p.file), p.section, p.least)
			for _, line := range lines {
				run(t, m, line)
			}
			scenario.VerifyClean(t, m)
		})
	}
}

// Every section of the experiments is among them.
func TestEveryExperimentIsRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^## .+$`).FindAllString(string(text), -1) {
		if !slices.ContainsFunc(pages(), func(p page) bool { return p.file == "docs/experiments.md" && p.section == m }) {
			t.Errorf("nobody runs %q of docs/experiments.md", m)
		}
	}
}

// wantedExit is how a line says that its command ends with something else than
// 0: "exit 4", in its comment.
var wantedExit = regexp.MustCompile(`#.*\bexit (?:code )?(\d+)`)

// exits are the README's commands that are meant to do so without saying it.
func exits() map[string]int {
	return map[string]int{"modeldock explain demo-c": 4, "modeldock submit --id demo-b --cost 2": 5}
}

// commands are the lines of a section's code blocks, with what a backslash
// continues joined and comments left to the shell.
func commands(t *testing.T, path, section string, least int) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), section+"\n")
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
	if len(lines) < least {
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*scenario.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "touch "+profile+"; . "+profile+"; "+line+"\ncode=$?; export -p >"+profile+"; exit $code")
	cmd.Dir = filepath.Dir(m.Data()) // what it writes
	cmd.Env = append(os.Environ(), m.Environment()...)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(m.Binary(t))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", command, err)
	}
	want := exits()[command]
	if said := wantedExit.FindStringSubmatch(line); said != nil {
		want, _ = strconv.Atoi(said[1])
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("%s: exit %d, want %d:\n%s", command, code, want, out)
	}
	if strings.HasPrefix(command, "curl -N") && !strings.Contains(string(out), "data: [DONE]") {
		t.Errorf("%s: no [DONE]:\n%s", command, out)
	}
}
