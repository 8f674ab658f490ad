package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const codeTrace = "../../bench/traces/AzureLLMInferenceTrace_code.csv"

// A replay prints policies side by side and compares them; the same as JSON,
// with a drawing and the timelines.
func TestSimulateComparesPolicies(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(policy, []byte("name: mine\nbase: online\nmin: 1\nmax: 4\ntarget: 6\nleadSeconds: 5\nsmoothSeconds: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "--trace", codeTrace, "--rate", "0.2", "--cold-start", "5s", "--policy", "reference-hpa", "--policy", policy, "--policy", "clairvoyant"}
	apart(t, nil, append(args, "--match")...).exits(exitOK, "reference-hpa", "mine against reference-hpa:", "clairvoyant against reference-hpa:", "GPU-hours instead of")
	svg, csv := filepath.Join(t.TempDir(), "plot.svg"), filepath.Join(t.TempDir(), "lines.csv")
	d := apart(t, nil, append(args, "-o", "json", "--plot", svg, "--csv", csv)...).exits(exitOK)
	var doc simulation
	if err := json.Unmarshal([]byte(d.out), &doc); err != nil || len(doc.Policies) != 3 || doc.Policies[1].Name != "mine" || doc.Policies[0].GPUHours <= 0 {
		t.Errorf("%v: %s", err, d.out)
	}
	for file, has := range map[string]string{svg: "clairvoyant: replicas", csv: `"mine"`} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s: %v, without %q", file, err, has)
		}
	}
}

// Replicas that stay loaded are woken instead of started, but not those of the
// reference.
func TestSimulateOfSleepers(t *testing.T) {
	t.Parallel()
	args := []string{"simulate", "--trace", codeTrace, "--cold-start", "60s", "--min", "1", "--asleep", "16", "--wake-time", "3s", "--policy", "reference-hpa", "--policy", "online"}
	apart(t, nil, append(args, "--match")...).exits(exitOK, "WAKES", "online against reference-hpa:", "GPU-hours instead of")
	d := apart(t, nil, append(args, "-o", "json")...).exits(exitOK)
	var doc simulation
	if err := json.Unmarshal([]byte(d.out), &doc); err != nil || len(doc.Policies) != 2 || doc.Policies[0].Wakes != 0 || doc.Policies[1].Wakes == 0 || doc.Policies[1].ColdStarts == 0 {
		t.Errorf("%v: %s", err, d.out)
	}
}

func TestSimulateRefusesWhatMeansNothing(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"neither a file nor":                          {"--policy", "best"},
		"llm, vision":                                 {"--class", "robot"},
		"above 0 and at most 1":                       {"--rate", "2"},
		"requests must follow":                        {"--warmup", "2h"},
		"0 ≤ min ≤ max":                               {"--policy", "online", "--min", "9", "--max", "3"},
		"no such file":                                {"--model", "none.yaml"},
		"--asleep, --cold-start must not be negative": {"--asleep", "-1", "--cold-start", "-1s"},
		"name at least two":                           {"--policy", "online", "--match"},
		"begins with TIMESTAMP,C":                     {"--trace", "simulate.go"},
	} {
		d := apart(t, nil, append([]string{"simulate", "--trace", codeTrace}, args...)...)
		if d.code == exitOK || !strings.Contains(d.err, says) {
			t.Errorf("%v: %d, %q, want %q", args, d.code, d.err, says)
		}
	}
}
