package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/api"
)

// TestSessionCallsNeedTheCSRFToken: a model is called by a console's session
// only with its token, and who leaves it out is told so.
func TestSessionCallsNeedTheCSRFToken(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	_, header, body := r.ask("", "POST", "/session", `{"key":"`+r.keys["team-a"]+`"}`)
	var session struct{ CSRFToken string }
	if err := json.Unmarshal([]byte(body), &session); err != nil || session.CSRFToken == "" {
		t.Fatalf("%v: %s", err, body)
	}
	signedIn, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	call := func(method, path, cookie, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(`{"model":"nothing","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", cookie)
		if token != "" {
			req.Header.Set(api.CSRFHeader, token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		name, method, path, cookie, token string
		status                            int
		says                              string
	}{
		{"no token", "POST", chat, signedIn, "", 403, api.CSRFHeader},
		{"wrong token", "POST", chat, signedIn, "x" + session.CSRFToken, 403, api.CSRFHeader},
		{"with its token", "POST", chat, signedIn, session.CSRFToken, 404, "model_not_found"},
		{"reading needs none", "GET", "/v1/models", signedIn, "", 200, `"list"`},
		{"no such session", "POST", chat, api.SessionCookie + "=abcd", "", 401, "sign in again"},
		{"another cookie", "POST", chat, "theme=dark", "", 401, "no API key was sent"},
	} {
		status, text := call(c.method, c.path, c.cookie, c.token)
		if status != c.status || !strings.Contains(text, c.says) || status != 200 && !strings.Contains(text, `{"error":{"message":`) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
}
