package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// TestPrincipalSaysWhyNot: a credential that does not suffice gets its own
// answer, and only who brings none is told to send a key.
func TestPrincipalSaysWhyNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err              error
		status           int
		code, kind, says string
	}{
		{gateway.ErrNobody, 401, "missing_api_key", "authentication_error", "no API key was sent"},
		{fmt.Errorf("session: %w", gateway.ErrNobody), 401, "missing_api_key", "authentication_error", "no API key was sent"},
		{&gateway.Refusal{Status: 401, Code: "session_refused", Message: "it has ended"}, 401, "session_refused", "authentication_error", "it has ended"},
		{&gateway.Refusal{Status: 403, Code: "session_refused", Message: "it needs the header X-CSRF-Token"}, 403, "session_refused", "permission_error", "it needs the header X-CSRF-Token"},
		{&gateway.Refusal{Status: 503, Code: "session_unknown", Message: "try again"}, 503, "session_unknown", "service_unavailable_error", "try again"},
		{errors.New("a bug with a secret"), 500, "internal_error", "server_error", "its log says why"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *gateway.Config) {
				cfg.Principal = func(*http.Request) (traffic.Key, error) { return traffic.Key{}, c.err }
			})
			b.echo("team-a", "m1", "v1")
			got := b.chat("", helloChat)
			if e := errorOf(t, got); got.status != c.status || e.Code != c.code || e.Type != c.kind || !strings.Contains(e.Message, c.says) {
				t.Errorf("%d %s", got.status, got.body)
			}
			checkErrorHeaders(t, got)
			if got := b.chat(keyA, helloChat); got.status != http.StatusOK {
				t.Errorf("a key of its own: %d %s", got.status, got.body)
			}
		})
	}
}

func TestPrincipalLetsIn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *gateway.Config) {
		cfg.Principal = func(r *http.Request) (traffic.Key, error) {
			if r.Header.Get("Cookie") == "" {
				return traffic.Key{}, gateway.ErrNobody
			}
			return credential(keyA, "team-a"), nil
		}
	})
	b.echo("team-a", "m1", "v1")
	if got := b.chat("", helloChat, "Cookie", "session=1"); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A proxy in front may have judged the other one.
func TestOneCredentialOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.echo("team-a", "m1", "v1")
	for _, path := range []string{"/v1/chat/completions", "/v1/models"} {
		method := http.MethodPost
		if path == "/v1/models" {
			method = http.MethodGet
		}
		got := b.call(method, path, keyA, helloChat, "Authorization", "Bearer "+keyA)
		if e := errorOf(t, got); got.status != 400 || e.Code != "invalid_request" || !strings.Contains(e.Message, "more than one Authorization header") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}
