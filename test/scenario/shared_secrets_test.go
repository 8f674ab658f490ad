//go:build mariadb

package scenario_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// Controllers and gateways that are processes of their own share secrets with
// each other and with the database. All that they say is searched, their
// operations listeners, their logs and what gateways keep included.
func TestSharedNoOutputShowsASecret(t *testing.T) {
	t.Parallel()
	g := onemachine.NewGated(t, server(t), 1, 1)
	secrets := planted{"the gateways' token": g.Token(), "a prompt": "zq7prompt", "a strange header": "zq7header", "a model's environment": "zq7environment", "a key that was never right": "zq7wrongzq7wrongzq7wrongzq7wrong"}
	for _, who := range []string{"admin", "team-a"} {
		secrets[who+"'s key"] = secretOf(g.Key(who))
	}
	a := scenario.As(t, g, "team-a")
	scenario.As(t, g, "admin").Must(200, "PUT", "/tenants/team-a/engines", map[string]any{"allow": []string{"simulated", "env"}})
	a.Submit("one", 1, map[string]any{"model": map[string]any{"env": map[string]string{"TOKEN": secrets["a model's environment"]}}})
	a.Ready("one")
	s := a.Chat(context.Background(), "one", map[string]any{"messages": []map[string]string{{"role": "user", "content": secrets["a prompt"]}}}, nil)
	if s.Status != http.StatusOK {
		t.Fatalf("the call answered %d", s.Status)
	}
	out := outputs{t: t, secrets: secrets, traced: s.RequestID}
	wrong := "mdk_0123456789abcdef_" + secrets["a key that was never right"]
	for _, service := range []*onemachine.Service{g.Controllers, g.Gateways} {
		for _, url := range service.All() {
			for _, key := range []string{wrong, g.Key("team-a") + "x", g.Key("team-a")} {
				for _, path := range append(out.reads("one"), "/v1/models", "/v1/chat/completions", "/healthz", "/metrics", "/nowhere") {
					out.call(url, "GET", path, key, "", "X-Strange", secrets["a strange header"])
				}
				out.call(url, "POST", "/v1/chat/completions", key, `{"model":"one","messages":[{"role":"user","content":"`+secrets["a prompt"]+`"}`)
			}
		}
		for _, url := range service.Ops() {
			out.operations(url)
		}
		for _, p := range service.Processes() {
			out.look("the log of "+p.Name(), []byte(p.Log()))
			out.processes(p.PID())
		}
	}
	out.files(filepath.Dir(g.Data()), "keys.json")
	if out.looked < 150 {
		t.Errorf("only %d outputs were looked at", out.looked)
	}
}

// operations reads what an operations listener has.
func (o *outputs) operations(url string) {
	o.t.Helper()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/traffic", "/nowhere"} {
		o.call(url, "GET", path, "", "")
	}
}
