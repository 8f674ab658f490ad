package oncluster

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// Exit codes of `modeldock explain`.
const (
	exitOK      = 0
	exitPending = 3
	exitBroken  = 4
)

// Explain runs `modeldock explain` as a person would, with the key of who, and
// returns what it prints and its exit code.
func (i *Installation) Explain(t testing.TB, who, id string, flags ...string) (out string, exit int) {
	t.Helper()
	return i.CLI(t, who, append([]string{"explain", id}, flags...)...)
}

// CLI runs the command line with the key of who.
func (i *Installation) CLI(t testing.TB, who string, args ...string) (out string, exit int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), i.Ground.Binary, args...)
	cmd.Env = append(os.Environ(), "MODELDOCK_URL="+i.API(), "MODELDOCK_KEY="+i.Key(who), "XDG_CONFIG_HOME="+t.TempDir())
	text, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// link is a broken link as a person should see it.
type link struct {
	step, reason string
	says         []string // parts of the message
	next         string   // part of what to do
}

// Broken waits until explain names the link, and holds its words and its exit
// code to what a person needs.
func (i *Installation) Broken(t testing.TB, c scenario.Caller, who, id string, want link) scenario.Evidence {
	t.Helper()
	var e scenario.Evidence
	eventually(t, 2*scenario.Patience, "explain to name "+want.step+", "+want.reason, func() bool {
		e = c.Explain(id)
		return e.BrokenAt != nil && *e.BrokenAt == want.step && e.Reason == want.reason
	}, func() any { return e })
	for _, part := range want.says {
		if !strings.Contains(e.Message, part) {
			t.Errorf("the message does not say %q: %s", part, e.Message)
		}
	}
	i.wantExit(t, who, id, exitBroken, "broken at "+want.step+": "+want.reason, "next: ", want.next)
	return e
}

// wantExit checks the command's exit code, and that it prints all of the parts.
func (i *Installation) wantExit(t testing.TB, who, id string, exit int, parts ...string) {
	t.Helper()
	out, code := i.Explain(t, who, id)
	if code != exit {
		t.Errorf("explain %s ended with %d, want %d:\n%s", id, code, exit, out)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("explain %s does not print %q:\n%s", id, part, out)
		}
	}
}

// eventually is scenario.Eventually for what takes a cluster longer.
func eventually(t testing.TB, patience time.Duration, what string, ok func() bool, last func() any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; last seen: %+v", patience, what, last())
		}
	}
}

// engine is a request for a simulated engine with these flags.
func engine(flags ...string) map[string]any {
	return map[string]any{"model": map[string]any{"args": append([]string{}, flags...), "gpuMemoryMiB": 64}}
}
