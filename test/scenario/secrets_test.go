package scenario_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// planted are the secrets of a platform's life, by what each is.
type planted map[string]string

// in names the secrets that the text holds.
func (p planted) in(text []byte) (found []string) {
	for what, secret := range p {
		if bytes.Contains(text, []byte(secret)) {
			found = append(found, what)
		}
	}
	return found
}

// secretOf is the part of a key that opens; the id before it may be shown.
func secretOf(key string) string { return key[strings.LastIndexByte(key, '_')+1:] }

// Secrets go in everywhere, rightly and wrongly; then everything that comes out
// is searched for them: logs, answers, errors, metrics, evidence, the processes'
// command lines, and every file but the one that is for keys.
func TestNoOutputShowsASecret(t *testing.T) {
	t.Parallel()
	redis := filepath.Join(t.TempDir(), "redis")
	secrets := planted{"the password of Redis": "zq7redispassword", "a prompt": "zq7prompt", "a model's environment": "zq7environment", "a strange header": "zq7header"}
	if err := os.WriteFile(redis, []byte("redis://user:zq7redispassword@127.0.0.1:1/0"), 0o600); err != nil { // nobody is there
		t.Fatal(err)
	}
	m := onemachine.New(t, "--redis-url-file", redis)
	for _, who := range []string{"admin", "team-a", "team-b"} {
		secrets[who+"'s key"] = secretOf(m.Key(who))
	}
	if kept, err := os.ReadFile(filepath.Join(m.Data(), "keys.json")); err != nil || len(secrets.in(kept)) != 3 {
		t.Fatalf("the search finds %q where all three keys are (%v)", secrets.in(kept), err)
	}
	admin, a := scenario.As(t, m, "admin"), scenario.As(t, m, "team-a")
	made := admin.Must(201, "POST", "/keys", map[string]any{"role": "tenant", "tenant": "team-a"}).JSON(t)
	secrets["a new key"] = secretOf(made["key"].(string))
	secrets["a key that was never right"] = "zq7wrongzq7wrongzq7wrongzq7wrong"

	admin.Must(200, "PUT", "/tenants/team-a/engines", map[string]any{"allow": []string{"simulated", "env", "args"}})
	a.Submit("one", 1, map[string]any{"model": map[string]any{"engine": "simulated", "env": map[string]string{"TOKEN": secrets["a model's environment"]}}})
	a.Ready("one")
	a.Submit("broken", 1, map[string]any{"model": map[string]any{"engine": "simulated", "args": []string{"--fail-load=corrupt"}, "env": map[string]string{"TOKEN": secrets["a model's environment"]}}})
	if s := a.Chat(context.Background(), "one", map[string]any{"messages": []map[string]string{{"role": "user", "content": secrets["a prompt"]}}}, nil); s.Status != http.StatusOK {
		t.Fatalf("the call answered %d", s.Status)
	}
	a.Until("broken", "a failed start", func(r scenario.Record) bool { return a.Explain("broken").BrokenAt != nil })

	out := outputs{t: t, secrets: secrets}
	out.misuse(m)
	out.everything(m)
	out.look("the log", []byte(m.Log()))
	out.processes(m)
	out.files(m)
	if out.looked < 40 {
		t.Errorf("only %d outputs were looked at", out.looked)
	}
}

// outputs searches, and counts, what comes out.
type outputs struct {
	t       *testing.T
	secrets planted
	looked  int
}

func (o *outputs) look(where string, text []byte) {
	o.t.Helper()
	o.looked++
	for _, what := range o.secrets.in(text) {
		o.t.Errorf("%s shows %s", where, what)
	}
}

// call looks at one whole answer, headers included.
func (o *outputs) call(m *onemachine.Machine, method, path, key, body string, headers ...string) *http.Response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, m.API()+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	said, _, _ := strings.Cut(path, "?")
	o.look(fmt.Sprintf("%s %s (%d)", method, said, resp.StatusCode), append(text, fmt.Sprint(resp.Header)...))
	return resp
}

// misuse puts secrets where they do not belong, on both APIs.
func (o *outputs) misuse(m *onemachine.Machine) {
	o.t.Helper()
	wrong := "mdk_0123456789abcdef_" + o.secrets["a key that was never right"]
	right := m.Key("team-a")
	chat := `{"model":"one","messages":[{"role":"user","content":"` + o.secrets["a prompt"] + `"}]`
	for _, path := range []string{"/requests", "/v1/models", "/v1/chat/completions", "/session", "/nowhere"} {
		for _, key := range []string{wrong, "Basic " + wrong, right + "x"} {
			o.call(m, "GET", path, key, "")
			o.call(m, "POST", path, key, chat+"}")
		}
		o.call(m, "GET", path, right, "", "X-Strange", o.secrets["a strange header"], "Cookie", "modeldock_session="+o.secrets["a strange header"])
	}
	o.call(m, "POST", "/session", "", `{"key":"`+wrong+`"}`)
	o.call(m, "POST", "/session", "", `{"key":"`+right+`","colour":1}`)
	o.call(m, "POST", "/v1/chat/completions", right, chat) // cut short
	o.call(m, "POST", "/v1/chat/completions", right, chat+`,"stream":"maybe"}`)
	o.call(m, "POST", "/v1/chat/completions", right, strings.Replace(chat, `"one"`, `"nothing"`, 1)+"}")
	o.call(m, "POST", "/requests", right, `{"id":"two","cost":1,"priority":1,"model":{"env":{"1BAD":"`+o.secrets["a model's environment"]+`"}}}`)
	resp := o.call(m, "POST", "/session", "", `{"key":"`+right+`"}`)
	if resp.StatusCode >= 300 {
		o.t.Errorf("signing in answered %d", resp.StatusCode)
	}
	for _, cookie := range resp.Cookies() {
		o.secrets["a session"] = cookie.Value
	}
	o.call(m, "GET", "/requests", "", "", "Cookie", "modeldock_session="+o.secrets["a session"])
	o.call(m, "POST", "/requests", "", "{}", "Cookie", "modeldock_session="+o.secrets["a session"]) // without its CSRF token
}

// everything reads all that there is to read.
func (o *outputs) everything(m *onemachine.Machine) {
	o.t.Helper()
	for _, who := range []string{"admin", "team-a"} {
		for _, path := range []string{
			"/requests", "/requests/one", "/requests/broken", "/requests/one/evidence", "/requests/broken/evidence", "/requests/one/journal", "/requests/one/logs", "/requests/broken/logs",
			"/tenants", "/tenants/team-a", "/pools", "/keys", "/grants", "/models", "/models/team-a/one", "/nodes", "/ledger/verify", "/diagnostics", "/v1/models", "/healthz", "/readyz", "/metrics",
		} {
			o.call(m, "GET", path+"?tenant=team-a", m.Key(who), "")
		}
	}
}

// processes looks at what ps shows everybody.
func (o *outputs) processes(m *onemachine.Machine) {
	o.t.Helper()
	for _, pid := range append(m.Processes(o.t, ""), m.PID()) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil { // else it has ended
			o.look(fmt.Sprintf("the command line of process %d", pid), line)
		}
	}
}

// files looks at what lies on the disk. A model's environment is kept there,
// for the model has to be started again.
func (o *outputs) files(m *onemachine.Machine) {
	o.t.Helper()
	delete(o.secrets, "a model's environment")
	err := filepath.WalkDir(m.Data(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "keys.json" {
			return nil //nolint:nilerr // what goes away meanwhile shows nothing
		}
		if text, err := os.ReadFile(path); err == nil {
			o.look("the file "+e.Name(), text)
		}
		return nil
	})
	if err != nil {
		o.t.Error(err)
	}
}
