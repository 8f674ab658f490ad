package scenario_test

import (
	"bytes"
	"context"
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
	s := a.Chat(context.Background(), "one", map[string]any{"messages": []map[string]string{{"role": "user", "content": secrets["a prompt"]}}}, nil)
	if s.Status != http.StatusOK {
		t.Fatalf("the call answered %d", s.Status)
	}
	a.Until("broken", "a failed start", func(r scenario.Record) bool { return a.Explain("broken").BrokenAt != nil })

	out := outputs{t: t, secrets: secrets, traced: s.RequestID}
	heard := out.listen(m.API(), m.Key("admin"), m.Key("team-a"))
	out.misuse(m)
	out.everything(m)
	a.Must(202, "DELETE", "/requests/one", nil)
	heard()
	out.look("the log", []byte(m.Log()))
	out.processes(append(m.Processes(t, ""), m.PID())...)
	out.files(m.Data(), "keys.json")
	if out.looked < 80 {
		t.Errorf("only %d outputs were looked at", out.looked)
	}
}
