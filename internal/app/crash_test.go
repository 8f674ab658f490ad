package app

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A model that was ready crashes: callers wait until it is back and are
// answered. After its release the evidence still tells what ran.
func TestCallersOutwaitACrash(t *testing.T) {
	t.Parallel()
	r := up(t, nil)
	submit := `{"id":"demo","cost":1,"priority":1,"model":{"args":["--load-time=30ms","--ttft=1ms","--token-time=1ms","--tokens=4"]}}`
	if code, _, body := r.ask("team-a", "POST", "/requests", submit); code != 202 {
		t.Fatalf("submit: %d %s", code, body)
	}
	r.eventually("team-a", "/requests/demo", `"readyReplicas":1`)
	pid := regexp.MustCompile(`"pid":\d+`)
	running := pid.FindString(r.eventually("team-a", "/requests/demo/evidence", `"pid":`))
	engine, err := strconv.Atoi(strings.TrimPrefix(running, `"pid":`))
	if err != nil || syscall.Kill(engine, syscall.SIGKILL) != nil {
		t.Fatalf("cannot kill %q (%v)", running, err)
	}
	evidence, deadline := "", time.Now().Add(patience)
	for evidence == "" || pid.FindString(evidence) == running {
		if time.Now().After(deadline) {
			t.Fatalf("the crash is not seen: %s", evidence)
		}
		time.Sleep(10 * time.Millisecond)
		_, _, evidence = r.ask("team-a", "GET", "/requests/demo/evidence", "")
	}
	call := `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`
	if code, _, body := r.ask("team-a", "POST", "/v1/chat/completions", call); code != 200 {
		t.Fatalf("a call after the crash: %d %s; before it: %s", code, body, evidence)
	}

	again := pid.FindString(r.eventually("team-a", "/requests/demo/evidence", `"pid":`))
	if code, _, body := r.ask("team-a", "POST", "/requests/demo/release", ""); code != 202 {
		t.Fatalf("release: %d %s", code, body)
	}
	r.eventually("team-a", "/requests/demo", `"state":"released"`)
	_, _, evidence = r.ask("team-a", "GET", "/requests/demo/evidence", "")
	for _, fact := range []string{again, `"freeMiBAtDecision":`, `"cardModel":`, `"engineReports":`} {
		if !strings.Contains(evidence, fact) {
			t.Errorf("the evidence of the released request lacks %s: %s", fact, evidence)
		}
	}
}
