package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages are all that people read.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"../../README*.md", "../../docs/*.md", "../../docs/*/*.md", "../../deploy/charts/modeldock/templates/NOTES.txt"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = strings.ReplaceAll(string(text), "\\\n", " ")
		}
	}
	if len(found) < 15 {
		t.Fatalf("only %d pages", len(found))
	}
	return found
}

var (
	inline = regexp.MustCompile("`(modeldock [^`\n]+)`")
	inLine = regexp.MustCompile(`(?m)^\s*(?:\w+=\S+ +)*(modeldock .+)$`)
	ends   = regexp.MustCompile(`\s(?:[#|>;&]|\|\||&&).*$`)
)

// commandsIn are the command lines of a page, each as words.
func commandsIn(page string) (all [][]string) {
	var lines []string
	for i, part := range strings.Split(page, "```") {
		from := inline
		if i%2 == 1 {
			from = inLine
		}
		for _, m := range from.FindAllStringSubmatch(part, -1) {
			lines = append(lines, m[1])
		}
	}
	for _, line := range lines {
		line = strings.NewReplacer("[", "", "]", "", "…", "").Replace(ends.ReplaceAllString(line, ""))
		all = append(all, strings.Fields(line))
	}
	return all
}

// Every command on every page is one of ours, with flags that it has.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	seen := 0
	for page, text := range pages(t) {
		for _, words := range commandsIn(text) {
			root := (&cli{streams: streams{err: io.Discard, out: io.Discard}}).root()
			root.InitDefaultCompletionCmd()
			for _, verbs := range alternatives(words[1:]) {
				seen++
				cmd, rest, err := root.Find(verbs)
				if err != nil || cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
					t.Errorf("%s: modeldock %s: there is no such command", page, strings.Join(verbs, " "))
					continue
				}
				cmd.InitDefaultHelpFlag()
				for i := 0; i < len(rest); i++ {
					long, ok := strings.CutPrefix(rest[i], "--")
					name, _, valued := strings.Cut(long, "=")
					if !ok || name == "" {
						continue
					}
					flag := cmd.Flags().Lookup(name)
					if flag == nil {
						flag = cmd.InheritedFlags().Lookup(name)
					}
					switch {
					case flag == nil:
						t.Errorf("%s: %s has no flag --%s", page, cmd.CommandPath(), name)
					case !valued && flag.NoOptDefVal == "":
						i++ // what follows is its value
					}
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d commands were found", seen)
	}
}

// firstStep is a runbook's first step with the commands that it names.
var (
	firstStep = regexp.MustCompile(`(?m)^1\. (.+)$`)
	kubectl   = regexp.MustCompile("`kubectl ([a-z]+)[^`]*`")
	component = regexp.MustCompile(`app\.kubernetes\.io/component=(\w+)`)
)

// Whoever is woken by an alert begins with a command that can be typed: one of
// ours (TestDocumentedCommandsExist knows whether it exists), or one of kubectl
// that names what the chart installs.
func TestRunbooksBeginWithACommand(t *testing.T) {
	t.Parallel()
	runbooks := 0
	for page, text := range pages(t) {
		if !strings.Contains(page, "/runbooks/") {
			continue
		}
		runbooks++
		step := firstStep.FindStringSubmatch(text)
		if step == nil {
			t.Errorf("%s has no first step", page)
			continue
		}
		of := kubectl.FindAllStringSubmatch(step[1], -1)
		if len(of) == 0 && !inline.MatchString(step[1]) {
			t.Errorf("%s begins with no command: %s", page, step[1])
		}
		for _, m := range kubectl.FindAllStringSubmatch(text, -1) {
			if !slices.Contains([]string{"get", "describe", "logs", "top", "rollout", "delete"}, m[1]) {
				t.Errorf("%s: kubectl %s", page, m[1])
			}
		}
		for _, m := range component.FindAllStringSubmatch(text, -1) {
			if !slices.Contains([]string{"controller", "gateway", "scheduler", "agent"}, m[1]) {
				t.Errorf("%s asks for the Pods of %s, which the chart does not have", page, m[1])
			}
		}
	}
	if runbooks < 18 {
		t.Errorf("only %d runbooks", runbooks)
	}
}

// alternatives writes "quota set|get" out.
func alternatives(words []string) [][]string {
	for i, w := range words {
		if strings.HasPrefix(w, "-") || !strings.Contains(w, "|") {
			continue
		}
		var all [][]string
		for _, one := range strings.Split(w, "|") {
			all = append(all, alternatives(append(append(slices.Clone(words[:i]), one), words[i+1:]...))...)
		}
		return all
	}
	return [][]string{words}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, says := range map[string]string{"bash": "__modeldock", "zsh": "#compdef modeldock", "fish": "complete -c modeldock", "powershell": "Register-ArgumentCompleter"} {
		modeldock(t, "completion", shell).exits(exitOK, says)
	}
	modeldock(t, "__complete", "pre").exits(exitOK, "preflight")
	modeldock(t, "__complete", "ledger", "").exits(exitOK, "verify", "export", "import", "journal")
}

// Every command says what it is for, and what is no command is a mistake of usage.
func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
	root := (&cli{}).root()
	var walk func(*cobra.Command)
	count := 0
	walk = func(cmd *cobra.Command) {
		count++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s says of itself %q", cmd.CommandPath(), cmd.Short)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	if count < 40 {
		t.Errorf("only %d commands", count)
	}
	for _, verb := range []string{"submit", "get", "list", "watch", "update", "release", "explain", "trace", "logs", "chat", "models", "nodes", "fit", "step", "simulate", "preflight", "migrate", "version", "up", "controller", "gateway", "agent"} {
		modeldock(t, verb, "--help").exits(exitOK, "Usage:", "modeldock "+verb)
		modeldock(t, verb, "--no-such-flag").exits(exitUsage)
		modeldock(t, verb, "-o", "xml").exits(exitUsage)
	}
}
