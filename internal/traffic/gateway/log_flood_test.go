package gateway_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/traffic/gateway"
)

// A tenant's engine that breaks off every answer, or gives none, writes one line
// each into our log, and keeps nobody else's model from having its own.
func TestBrokenAnswersDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	log := &lockedText{}
	b := setup(t, func(c *gateway.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	cut := func(w http.ResponseWriter, r *http.Request) {
		events(chunkEvent("a"))(w, r)
		panic(http.ErrAbortHandler)
	}
	b.engine("team-a", "m1", "v1", cut)
	b.engine("team-b", "m2", "v1", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 20 {
		b.chat(keyA, helloStream)
		b.chat(keyB, strings.Replace(helloStream, "m1", "m2", 1))
	}
	said := log.String()
	if strings.Count(said, "broke off its answer") != 1 || strings.Count(said, "did not answer") != 1 || !strings.Contains(said, "owner=team-b model=m2") {
		t.Errorf("the log of 40 calls:\n%s", said)
	}
}
