package simulated

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What is told of an answer's length costs no memory before it is sent, and an
// answer in one piece has a bound.
func TestAnswersAreNotMadeBeforehand(t *testing.T) {
	t.Parallel()
	e := NewEngine(Options{Model: "tiny", Tokens: math.MaxInt, Concurrency: 4})
	e.Loaded(time.Now())
	ask := request{Prompt: json.RawMessage(`"hello"`)}
	a := e.answerTo(ask)
	if a.tokens != math.MaxInt || a.token(math.MaxInt-1) == "" || a.finish != "stop" {
		t.Errorf("%+v", a)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"tiny","messages":[{"role":"user","content":"hello"}]}`,
		"/v1/completions":      `{"model":"tiny","prompt":"hello"}`,
		"/v1/responses":        `{"model":"tiny","input":"hello"}`,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		e.Handler().ServeHTTP(w, r)
		if n := w.Body.Len(); w.Code != http.StatusOK || n < maxWhole || n > 20*maxWhole || !strings.Contains(w.Body.String(), `tokens":100000`) {
			t.Errorf("%s: %d with %d bytes", path, w.Code, n)
		}
	}
}
