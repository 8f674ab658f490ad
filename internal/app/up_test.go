package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// said is what the platform says, safe to read while it runs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *said) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *said) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a platform in this process.
type running struct {
	*testing.T
	Running
	keys map[string]string
	log  *said
	stop context.CancelFunc
	done chan error
}

func up(t *testing.T, change func(*UpOptions)) *running {
	t.Helper()
	exe, err := DefaultExecutable()
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultUpOptions()
	o.Listen, o.DataDir, o.Executable, o.Cards, o.StopGrace = "127.0.0.1:0", t.TempDir(), exe, "2x24576", patience
	if change != nil {
		change(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{T: t, log: &said{}, stop: stop, done: make(chan error, 1)}
	ready := make(chan Running, 1)
	go func() { r.done <- Up(ctx, o, r.log, func(s Running) { ready <- s }) }()
	select {
	case r.Running = <-ready:
	case err := <-r.done:
		t.Fatalf("it ended: %v\n%s", err, r.log)
	case <-time.After(patience):
		t.Fatalf("it is not ready: %s", r.log)
	}
	t.Cleanup(func() {
		stop()
		if err := r.ended(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if t.Failed() {
			t.Logf("it said: %s", r.log)
		}
	})
	data, err := os.ReadFile(r.KeysFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r.keys); err != nil {
		t.Fatal(err)
	}
	return r
}

// ended waits for the end; later calls return the same.
func (r *running) ended() error {
	r.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(2 * patience):
		r.Fatal("it does not end")
		return nil
	}
}

func (r *running) ask(who, method, path, body string) (int, http.Header, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+r.keys[who])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

// eventually asks until want is in the answer.
func (r *running) eventually(who, path, want string) string {
	r.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, _, got = r.ask(who, "GET", path, ""); strings.Contains(got, want) {
			return got
		}
	}
	r.Fatalf("%s does not tell %s: %s", path, want, got)
	return ""
}

func TestOneListenerForEverything(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	for _, c := range []struct {
		method, path string
		status       int
		kind, text   string
	}{
		{"GET", "/", 302, "", ""},
		{"GET", "/console", 302, "", ""},
		{"POST", "/", 405, "application/json", "method_not_allowed"},
		{"GET", "/healthz", 200, "application/json", `"ok"`},
		{"POST", "/healthz", 405, "application/json", "method_not_allowed"},
		{"GET", "/readyz", 200, "application/json", `"ready":true`},
		{"GET", "/nowhere", 404, "application/json", "not_found"},
		{"GET", "//requests", 404, "application/json", "not_found"},
		{"GET", "/requests/../keys", 404, "application/json", "not_found"},
		{"GET", "/requests//one", 404, "application/json", "not_found"},
		{"GET", "/v1/models", 401, "application/json", `"error"`},
		{"GET", "/v1//models", 404, "application/json", `"error"`},
		{"GET", "/v1", 404, "application/json", `"error"`},
		{"GET", "/requests", 401, "application/json", "unauthorised"},
		{"GET", "/metrics", 200, "text/plain", "modeldock_ledger_violations 0"},
	} {
		status, header, body := r.ask("", c.method, c.path, "")
		if status != c.status || !strings.HasPrefix(header.Get("Content-Type"), c.kind) || !strings.Contains(body, c.text) {
			t.Errorf("%s %s answered %d %s: %.300s", c.method, c.path, status, header.Get("Content-Type"), body)
		}
	}
	_, _, metrics := r.ask("", "GET", "/metrics", "")
	for _, name := range []string{
		"modeldock_ledger_violations", `modeldock_ledger_tenant_cap_slots{tenant="team-a"} 2`, `modeldock_ledger_pool_used_slots{pool="default"} 0`,
		"go_goroutines", "process_open_fds", "modeldock_gateway_",
	} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	for _, secret := range r.keys {
		if strings.Contains(r.log.String()+metrics, secret[strings.LastIndex(secret, "_")+1:]) {
			t.Error("a secret stands in the log or in the metrics")
		}
	}
}

func TestSecondOpenerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up(t, func(o *UpOptions) { o.DataDir, o.Manual = dir, true })
	o := DefaultUpOptions()
	o.Listen, o.DataDir = "127.0.0.1:0", dir
	err := Up(t.Context(), o, io.Discard, func(Running) { t.Error("it started") })
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("the second one: %v", err)
	}
	taken := up(t, func(o *UpOptions) { o.Manual = true })
	o.DataDir, o.Listen = t.TempDir(), strings.TrimPrefix(taken.URL, "http://")
	if err := Up(t.Context(), o, io.Discard, func(Running) {}); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a taken address: %v", err)
	}
	if entries, err := os.ReadDir(o.DataDir); err != nil || len(entries) != 0 {
		t.Errorf("the one that did not start left %v behind", entries)
	}
}

func TestManualStandsStillUntilStepped(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "json"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r := up(t, func(o *UpOptions) {
				o.Manual = true
				if store == "json" {
					o.Store = storeJSON + o.DataDir + "/ledger.json"
				}
			})
			r.ask("team-a", "POST", "/requests", `{"id":"one","cost":1,"priority":1}`)
			for _, c := range []struct{ what, did, state string }{
				{"admit", "reserved", "reserved"}, {"deliver", "", "reserved"},
			} {
				status, _, body := r.ask("admin", "POST", "/step", `{"what":"`+c.what+`"}`)
				if status != 200 || !strings.Contains(body, `"id":"one"`) || !strings.Contains(body, c.did) {
					t.Errorf("step %s answered %d: %s", c.what, status, body)
				}
				if _, _, rec := r.ask("team-a", "GET", "/requests/one", ""); !strings.Contains(rec, `"state":"`+c.state+`"`) {
					t.Errorf("after step %s: %s", c.what, rec)
				}
			}
			r.eventually("team-a", "/requests/one", `"readyReplicas":1`)
			r.ask("team-a", "DELETE", "/requests/one", "")
			for range 200 { // deliver the deletion, then credit what is gone
				r.ask("admin", "POST", "/step", `{"what":"deliver"}`)
				r.ask("admin", "POST", "/step", `{"what":"release"}`)
				if _, _, rec := r.ask("team-a", "GET", "/requests/one", ""); strings.Contains(rec, `"state":"released"`) {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Error("it is not released")
		})
	}
}

// A stream that runs when the end is asked for is finished, then its model
// stops; new requests are refused meanwhile.
func TestShutdownFinishesStreamsThenStopsModels(t *testing.T) {
	t.Parallel()
	r := up(t, nil)
	status, _, body := r.ask("team-a", "POST", "/requests", `{"id":"slow","cost":1,"priority":1,"model":{"args":["--load-time=1ms","--tokens=30","--token-time=20ms"]}}`)
	if status != 202 {
		t.Fatalf("submit answered %d: %s", status, body)
	}
	r.eventually("team-a", "/requests/slow", `"readyReplicas":1`)
	var e struct {
		Steps []struct {
			Step  string
			Facts map[string]any
		}
	}
	_, _, doc := r.ask("team-a", "GET", "/requests/slow/evidence", "")
	if err := json.Unmarshal([]byte(doc), &e); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for _, s := range e.Steps {
		if n, ok := s.Facts["pid"].(float64); ok && s.Step == "started" {
			pid = int(n)
		}
	}
	if pid == 0 || syscall.Kill(pid, 0) != nil {
		t.Fatalf("no process %d: %s", pid, doc)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"slow","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.keys["team-a"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("the stream has no first line")
	}
	r.stop()
	var last string
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if last != "data: [DONE]" {
		t.Errorf("the stream ended with %q and %v", last, lines.Err())
	}
	if err := r.ended(); err != nil {
		t.Error(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d of the model still runs", pid)
	}
	if fresh, err := http.Get(r.URL + "/healthz"); err == nil {
		_ = fresh.Body.Close()
		t.Error("it still answers")
	}
}

// An open event stream does not hold up the end.
func TestShutdownEndsEventStreams(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.keys["admin"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r.stop()
	if data, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(data), "event: reset") {
		t.Errorf("read %q, %v", data, err)
	}
	if err := r.ended(); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "are cut") {
		t.Error("the stream had to be cut")
	}
}
