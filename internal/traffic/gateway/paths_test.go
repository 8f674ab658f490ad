package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// A path is served as what it looks like, or not at all; the id of a model is a
// name, in which clients encode the slash.
func TestPathsAreReadOneWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(http.ResponseWriter, *http.Request) { t.Error("an engine was asked") })
	for _, path := range []string{"/v1/chat%2fcompletions", "/v1%2Fchat/completions", "/v1/x/%2e%2e/chat/completions", "/v1/chat/completions%00", "/v1%5cchat/completions"} {
		got := b.call(http.MethodPost, path, keyA, helloChat)
		if e := errorOf(t, got); got.status != 400 || e.Code != "invalid_request" || !strings.Contains(e.Message, "encoded") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for path, want := range map[string]int{
		"/v1/models%2fm1": 400, "/v1%2fmodels": 400, "/v1/%2e/models": 400, "/v1/models/m1": 200, "/v1/models/%6d1": 200, "/v1/models/..%2f..%2fkeys": 404,
	} {
		if got := b.call(http.MethodGet, path, keyA, ""); got.status != want {
			t.Errorf("%s: %d, want %d: %s", path, got.status, want, got.body)
		}
	}
}
