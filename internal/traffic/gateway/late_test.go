package gateway_test

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

// TestRightsAreJudgedAgain: who lost the right to call a model after the
// request began and before it reached a replica does not get an answer of it.
// An answer that has begun goes on to its end.
func TestRightsAreJudgedAgain(t *testing.T) {
	t.Parallel()
	revoke := func(s *traffic.Snapshot) {
		s.Keys = maps.Clone(s.Keys)
		delete(s.Keys, "bbbb")
	}
	expire := func(s *traffic.Snapshot) {
		s.Keys = maps.Clone(s.Keys)
		k := s.Keys["bbbb"]
		k.ExpiresAt = time.Now().Add(-time.Second)
		s.Keys[k.ID] = k
	}
	withdraw := func(s *traffic.Snapshot) { s.Grants = map[traffic.GrantKey]struct{}{} }
	for _, c := range []struct {
		name   string
		change func(*traffic.Snapshot)
		status int
		code   string
	}{
		{"revoked", revoke, 401, "invalid_api_key"},
		{"expired", expire, 401, "expired_api_key"},
		{"grant withdrawn", withdraw, 404, "model_not_found"},
	} {
		start := func(t *testing.T) *bench {
			b := setup(t)
			b.publish(func(s *traffic.Snapshot) {
				s.Grants = map[traffic.GrantKey]struct{}{{Owner: "team-a", Model: "m1", Grantee: "team-b"}: {}}
			})
			return b
		}
		refused := func(t *testing.T, b *bench, got result) {
			t.Helper()
			if e := errorOf(t, got); got.status != c.status || e.Code != c.code {
				t.Errorf("%d %s", got.status, got.body)
			}
			b.record(got.header.Get("X-Request-Id")) // a tenant's request leaves one
		}
		body := strings.Replace(helloChat, "m1", "team-a/m1", 1)
		t.Run(c.name+" while the body came", func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.echo("team-a", "m1", "v1")
			conn := b.upload(keyB, len(body), body[:5])
			eventually(t, "the body to be read", func() bool { return b.bodyBytes() > 0 })
			b.publish(c.change)
			_, _ = io.WriteString(conn, body[5:])
			refused(t, b, readResult(t, bufio.NewReader(conn)))
		})
		t.Run(c.name+" while it waited", func(t *testing.T) {
			t.Parallel()
			b := start(t)
			answered := make(chan result, 1)
			go func() { answered <- b.chat(keyB, body) }()
			eventually(t, "the request to wait", func() bool { return b.waiting("m1") == 1 })
			b.publish(c.change)
			b.engine("team-a", "m1", "v1", func(http.ResponseWriter, *http.Request) { t.Error("it reached the engine") })
			refused(t, b, <-answered)
		})
		t.Run(c.name+" while its answer came", func(t *testing.T) {
			t.Parallel()
			b := start(t)
			begun, goOn := make(chan struct{}), make(chan struct{})
			b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
				events(chunkEvent("a"))(w, r)
				close(begun)
				<-goOn
				events(stopEvent, doneEvent)(w, r)
			})
			answered := make(chan result, 1)
			go func() { answered <- b.chat(keyB, strings.Replace(helloStream, "m1", "team-a/m1", 1)) }()
			<-begun
			b.publish(c.change)
			close(goOn)
			if got := <-answered; got.status != http.StatusOK || !strings.HasSuffix(got.body, doneEvent) {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}
