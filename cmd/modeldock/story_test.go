package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"modeldock.io/internal/api/openapi"
)

const quick = "--arg=--load-time=1ms"

func TestSubmitCallExplainRelease(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	d := a.run("submit", "--id", "demo", quick, "--wait").exits(exitOK, "reserved", "Available", "1/1", "demo@v1")
	if strings.Contains(d.out, "Loading") || !strings.Contains(d.err, "demo ") {
		t.Errorf("progress belongs to standard error:\n%s---\n%s", d.out, d.err)
	}
	a.run("explain", "demo").exits(exitPending, "budget — was the budget spent once? yes", "traffic — did the caller get the first chunk? not yet",
		"✓ submitted", "… firstChunk", "NotCalled", `next: call it: modeldock chat demo "hello"`)
	if d := a.run("chat", "demo", "hello").exits(exitOK, "first chunk after", "request "); d.out == "\n" || strings.Contains(d.out, "data:") {
		t.Errorf("the answer is %q", d.out)
	}
	apart(t, []string{"MODELDOCK_URL=http://127.0.0.1:1", "MODELDOCK_GATEWAY=" + shared.url}, "chat", "demo", "hello", "--key-file", a.flags[3]).exits(exitOK, "first chunk after")
	if d := feed(t, "from standard input\n", append([]string{"chat", "demo", "--max-tokens", "3"}, a.flags...)...).exits(exitOK); len(strings.Fields(d.out)) > 6 {
		t.Errorf("three tokens were asked for: %q", d.out)
	}
	var e openapi.Evidence
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // the record is written in batches
		d := a.run("explain", "demo", "-o", "json")
		if err := json.Unmarshal([]byte(d.out), &e); err != nil {
			t.Fatal(err)
		}
		if d.code == exitOK {
			break
		}
		if time.Now().After(deadline) {
			d.exits(exitOK)
		}
	}
	a.run("explain", "demo").exits(exitOK, "did the caller get the first chunk? yes")
	for _, s := range e.Steps {
		if s.Step == "firstChunk" {
			id, _ := s.Facts["requestId"].(string)
			for deadline := time.Now().Add(patience); !strings.Contains(a.run("trace", id).out, "completed") && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			a.run("trace", id).exits(exitOK, "first chunk", "completed", "status 200")
		}
	}
	a.run("explain", "demo", "--scaling").exits(exitOK, a.tenant+"/demo: 1 of 1 replicas ready, between 1 and 1 (by direct)", "cannot change by itself")
	a.run("explain", "nobody", "--scaling").exits(exitNotFound)
	a.run("logs", "demo", "--tail", "5").exits(exitOK)
	a.run("models").exits(exitOK, a.tenant+"/demo", "simulated")
	a.run("nodes").exits(exitOK, a.tenant+"/demo: 4096", "ISOLATION", "none", "simulated", "(largest)")
	a.run("fit", "8192").exits(exitOK, "yes, chosen", "MiB free)", "(simulated)")
	a.run("fit", "999999", "--gpus", "2").exits(exitBroken, "0 cards with a fragment of 999999 MiB; 2 are needed on node")
	a.run("fit", "8Gi").exits(exitUsage, "in digits without sign, unit or spaces")
	a.run("ledger", "journal", "demo").exits(exitOK, "reserve", "+1")
	a.run("release", "demo", "--wait").exits(exitOK, "released")
	a.run("ledger", "journal", "demo").exits(exitOK, "release", "-1")
	a.run("explain", "demo").exits(exitOK, "release — did the slots come back once?", "✓ credited")
	admin(t).run("ledger", "verify").exits(exitOK, "clean: ")
}

func TestWaitOutcomes(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	a.run("submit", "--id", "slow", "--arg=--load-time=1h", "--arg=--ignore-sigterm", "--wait", "--timeout", "300ms").exits(exitPending, "still slow reserved", "explain slow")
	for deadline := time.Now().Add(patience); !strings.Contains(a.run("explain", "slow").out, "Loading") && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	a.run("explain", "slow").exits(exitPending, "… started", "Loading")
	a.run("submit", "--id", "bad", "--arg=--fail-load=CUDA out of memory", "--wait").exits(exitBroken, "ModelLoadFailed", "CUDA out of memory")
	a.run("explain", "bad").exits(exitBroken, "✗ started", "broken at started: ModelLoadFailed", "modeldock logs bad")
	a.run("submit", "--id", "third", "--wait", "--timeout", "300ms").exits(exitBroken, "QuotaBlocked", "2 of 2")
	a.run("explain", "third").exits(exitBroken, "✗ reserved", "broken at reserved: QuotaBlocked", "quota set")
	a.run("submit", "--id", "giant", "--cost", "1000", "--wait", "--timeout", "1h").exits(exitBroken, "ExceedsQuota")
	a.run("release", "third", "--wait").exits(exitOK, "released")
	a.run("submit", "--id", "third", "--wait").exits(exitBroken, "released", "submit again under a new id")
	a.run("release", "slow", "--wait", "--timeout", "100ms").exits(exitPending, "still slow", "Draining")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	a.run("submit", "--id", "demo", quick, "--wait").exits(exitOK, "1/1")
	a.run("update", "demo", "--min", "2", "--wait").exits(exitOK, "reserved", "Available", "2/2")
	a.run("update", "demo", "--min", "3").exits(exitBroken, "from 2 to 3 replicas", "holds 2 of 2 slots", "budget_blocked")
	a.run("get", "demo").exits(exitOK, "2/2")
	a.run("update", "demo", "--weight", "0", "-o", "json").exits(exitOK, `"weight": 0`, `"generation": 3`, `"min": 2`)
	a.run("update", "demo", "--min", "0", "--wait").exits(exitOK, "1/1")
	a.run("ledger", "journal", "demo").exits(exitOK, "reserve", "grow", "shrink", "-1")
	a.run("update", "demo", "--max", "0").exits(exitUsage, "replicas.max")
	a.run("update", "demo", "--weight", "1001").exits(exitUsage, "traffic.weight")
	a.run("update", "demo").exits(exitUsage, "min")
	a.run("update", "nobody", "--min", "1").exits(exitNotFound, "nobody")
	a.run("release", "demo", "--wait").exits(exitOK, "released")
	a.run("update", "demo", "--min", "2", "--wait").exits(exitConflict, "final_state")
	a.run("submit", "--id", "later", "--cost", "9").exits(exitOK, "ExceedsQuota")
	a.run("update", "later", "--min", "2").exits(exitOK, "waiting", "0/2")
	a.run("update", "later", "--min", "3", "--wait", "--timeout", "1h").exits(exitBroken, "ExceedsQuota")
}

func TestNoCardIsLargeEnough(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	a.run("submit", "--id", "huge", "--memory", "9000000", "--wait", "--timeout", "2s").exits(exitBroken, "NoFragmentFits")
	a.run("explain", "huge").exits(exitBroken, "✗ placed", "gpuMemoryMiB")
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	boss, a := admin(t), tenant(t)
	a.run("submit", "--id", "one", quick).exits(exitOK, "one")
	for _, c := range []struct {
		who  as
		args string
		code int
		says string
	}{
		{a, "submit --id one --cost 2", exitConflict, "cost 1"},
		{a, "submit --id two --model one", exitConflict, "model_in_use"},
		{a, "submit --id two --cost 0", exitUsage, "cost"},
		{a, "submit --id -two", exitUsage, "id"},
		{a, "submit --id two --pool nowhere", exitUnauthorised, "pool"},
		{a, "submit --id two --engine ollama --source tiny", exitUnauthorised, "engine ollama"},
		{a, "submit", exitUsage, "id"},
		{a, "submit --id two --model-file x --memory 5", exitUsage, "model-file"},
		{a, "submit --id two --model-file /nowhere/x.yaml", exitUsage, "model file"},
		{a, "submit --id two --colour red", exitUsage, "colour"},
		{boss, "submit --id two", exitUsage, "--tenant NAME"},
		{a, "get nobody", exitNotFound, `"nobody"`},
		{a, "explain nobody", exitNotFound, ""},
		{a, "release nobody", exitNotFound, ""},
		{a, "logs nobody", exitNotFound, ""},
		{a, "ledger journal nobody", exitNotFound, ""},
		{a, "trace nobody", exitNotFound, ""},
		{a, "chat nobody hello", exitNotFound, "nobody"},
		{boss, "quota get nobody", exitNotFound, "nobody"},
		{a, "pool get nobody", exitNotFound, "nobody"},
		{boss, "key revoke nobody", exitNotFound, ""},
		{boss, "get one", exitUsage, "--tenant NAME"},
		{a, "quota set x 1", exitUnauthorised, "admin"},
		{boss, "limits get nobody", exitNotFound, "nobody"},
		{a, "limits set x --concurrency 1", exitUnauthorised, "admin"},
		{boss, "limits set x --concurrency -1", exitUsage, "concurrency"},
		{boss, "limits set x --max-class first", exitUsage, "maxClass"},
		{a, "pool set x 1", exitUnauthorised, ""},
		{a, "key list", exitUnauthorised, ""},
		{a, "key create x", exitUnauthorised, ""},
		{a, "ledger verify", exitUnauthorised, ""},
		{a, "step admit", exitUnauthorised, ""},
		{boss, "step admit", exitConflict, "--manual"},
		{a, "release one --force --why x", exitUnauthorised, "admin"},
		{boss, "quota set x many", exitUsage, "CAP"},
		{boss, "quota set x -- -1", exitUsage, "cap"},
		{boss, "key create", exitUsage, "tenant"},
		{boss, "key create x --role king", exitUsage, "role"},
		{a, "grant add other m x", exitUnauthorised, "owner"},
		{a, "list --state odd", exitUsage, "state"},
		{a, "list -o xml", exitUsage, "json"},
		{a, "get", exitUsage, ""},
		{a, "get one two", exitUsage, ""},
		{a, "frobnicate", exitUsage, "frobnicate"},
		{a, "quota sett x 1", exitUsage, "sett"},
		{a, "key creat", exitUsage, "creat"},
		{a, "ledger exprt", exitUsage, "exprt"},
		{a, "quota", exitOK, "quota"},
		{a, "version", exitOK, "VERSION"},
		{a, "--help", exitOK, "submit"},
	} {
		d := c.who.run(strings.Fields(c.args)...)
		if d.code != c.code || !strings.Contains(d.out+d.err, c.says) {
			t.Errorf("modeldock %s exited %d, want %d and %q:\n%s%s", c.args, d.code, c.code, c.says, d.out, d.err)
		}
		if d.code != exitOK && !strings.HasPrefix(d.err, "modeldock: ") {
			t.Errorf("modeldock %s says %q", c.args, d.err)
		}
	}
	if d := a.run("submit", "--id", "unseen", "-o", "xml").exits(exitUsage); d.out != "" {
		t.Errorf("it printed %q", d.out)
	}
	a.run("get", "unseen").exits(exitNotFound) // a usage error asks nothing
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	a.run("submit", "--id", "one", "--model-version", "v2").exits(exitOK)
	a.run("submit", "--id", "two").exits(exitOK)
	if d := a.run("list", "-o", "name").exits(exitOK); d.out != "one\ntwo\n" {
		t.Errorf("names: %q", d.out)
	}
	var list openapi.RequestList
	if err := json.Unmarshal([]byte(a.run("list", "-o", "json").exits(exitOK).out), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("json: %v, %d items", err, len(list.Items))
	}
	var one openapi.Request
	if err := yaml.UnmarshalStrict([]byte(a.run("get", "one", "-o", "yaml").exits(exitOK).out), &one); err != nil || one.Id != "one" || *one.Model.Version != "v2" {
		t.Errorf("yaml: %v, %+v", err, one)
	}
	table := strings.Split(strings.TrimSpace(a.run("list").exits(exitOK).out), "\n")
	if len(table) != 3 || !strings.HasPrefix(table[0], "ID") || strings.Index(table[0], "STATE") != strings.Index(table[1], "reserved") {
		t.Errorf("table:\n%s", strings.Join(table, "\n"))
	}
	for _, args := range [][]string{{"list", "--state", "released"}, {"list", "--reason", "NameTaken"}, {"list", "--model", "nobody"}} {
		if d := a.run(append(args, "-o", "name")...).exits(exitOK); d.out != "" {
			t.Errorf("%v: %q", args, d.out)
		}
	}
	for _, args := range [][]string{{"models"}, {"nodes"}, {"top"}, {"quota", "get"}, {"limits", "get"}, {"pool", "get", "default"}, {"grant", "list"}, {"version"}, {"explain", "one"}, {"ledger", "journal", "one"}} {
		d := a.run(append(args, "-o", "json")...)
		if !json.Valid([]byte(d.out)) {
			t.Errorf("%v -o json: %q", args, d.out)
		}
	}
}

func TestModelFile(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	file := filepath.Join(t.TempDir(), "model.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("name: tiny\ngpuMemoryMiB: 1000\nreplicas: {min: 2, max: 3}\nargs: [--load-time=1ms]\n")
	a.run("submit", "--id", "file", "--model-file", file).exits(exitOK, "tiny@v1")
	var r openapi.Request
	if err := json.Unmarshal([]byte(a.run("get", "file", "-o", "json").out), &r); err != nil || *r.Model.GpuMemoryMiB != 1000 || *r.Model.Replicas.Max != 3 {
		t.Errorf("%v: %+v", err, r.Model)
	}
	for text, says := range map[string]string{"name: [": "not valid YAML", "colour: red": "colour", "gpus: many": "gpus", "name: a\nname: b": "already set"} {
		write(text)
		a.run("submit", "--id", "bad", "--model-file", file).exits(exitUsage, says)
	}
}

func TestAdminActsForATenant(t *testing.T) {
	t.Parallel()
	boss, a := admin(t), tenant(t)
	boss.run("submit", "--id", "one", quick, "--wait", "--tenant", a.tenant).exits(exitOK)
	boss.run("get", "one", "--tenant", a.tenant).exits(exitOK, a.tenant)
	boss.run("release", "one", "--force", "--tenant", a.tenant).exits(exitUsage, "on the command line: --why TEXT")
	boss.run("release", "one", "--force", "--why", "the node burned", "--tenant", a.tenant).exits(exitOK, "released")
	boss.run("grant", "add", a.tenant, "one", "team-b").exits(exitOK, "team-b")
	a.run("grant", "list", "-o", "name").exits(exitOK, a.tenant+"/one/team-b")
	a.run("grant", "remove", a.tenant, "one", "team-b").exits(exitOK, "no longer")
	viewer := boss.run("key", "create", "--role", "viewer", "--expires-in", "1h", "-o", "name").exits(exitOK).out
	id := strings.Split(viewer, "_")[1]
	boss.run("key", "list").exits(exitOK, id, "viewer", "live")
	apart(t, []string{"MODELDOCK_URL=" + shared.url, "MODELDOCK_KEY=" + strings.TrimSpace(viewer)}, "release", "one", "--tenant", a.tenant).exits(exitUnauthorised, "read")
	boss.run("key", "revoke", id).exits(exitOK, "revoked")
	apart(t, []string{"MODELDOCK_URL=" + shared.url, "MODELDOCK_KEY=" + strings.TrimSpace(viewer)}, "list").exits(exitUnauthorised, "revoked")
}

func TestWatchShowsChangesUntilInterrupted(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	var out, errs output
	ctx, interrupt := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"watch", "one"}, a.flags...), streams{in: strings.NewReader(""), out: &out, err: &errs})
	}()
	a.run("submit", "--id", "other", quick).exits(exitOK)
	a.run("submit", "--id", "one", quick, "--wait").exits(exitOK)
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "(1 ready)"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is shown: %s%s", out.String(), errs.String())
		}
	}
	interrupt()
	if c := <-code; c != exitOK || strings.Contains(out.String(), "other") {
		t.Errorf("exit %d after an interrupt: %s%s", c, out.String(), errs.String())
	}
}

// The number of replicas is explained by the id and by the model's name.
func TestExplainScaling(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte("name: grower\nreplicas: {min: 1, max: 3}\nargs: [--load-time=1ms]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.run("submit", "--id", "grow", "--cost", "1", "--priority", "50", "--model-file", file, "--wait").exits(exitOK)
	var r openapi.ScalingReport
	for deadline := time.Now().Add(patience); r.Latest == nil || r.Latest.Inputs == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no decision was made: %+v", r)
		}
		if err := json.Unmarshal([]byte(a.run("explain", "--scaling", "grow", "-o", "json").exits(exitOK).out), &r); err != nil {
			t.Fatal(err)
		}
	}
	a.run("explain", "--scaling", "grower").exits(exitOK, a.tenant+"/grow: ", "between 1 and 3", "inference_offered_load", "stays at 1")
}
