package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/traffic"
)

// readRequest reads one request to its end.
func readRequest(conn net.Conn) error {
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, request.Body)
	return err
}

// events answers with a stream of the given texts, each flushed.
func events(texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range texts {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}
}

func TestStreamPassesAndLeavesEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine("team-a", "m1", "v1", events(": ping\n\n", roleEvent, chunkEvent("a"), chunkEvent("b"), stopEvent, usageEvent, doneEvent))

	got := b.chat(keyA, helloStream)
	want := ": ping\n\n" + roleEvent + chunkEvent("a") + chunkEvent("b") + stopEvent + doneEvent
	if got.status != http.StatusOK || got.body != want || got.err != nil {
		t.Fatalf("status %d, error %v, body\n%q, want\n%q", got.status, got.err, got.body, want)
	}
	if v := got.header.Get("X-Modeldock-Version"); v != "v1" {
		t.Errorf("x-modeldock-version %q", v)
	}
	r := b.record(got.header.Get("X-Request-Id"))
	if r.Outcome != traffic.Completed || r.PromptTokens != 7 || r.CompletionTokens != 3 || !r.Stream || r.Status != 200 {
		t.Errorf("record %+v", r)
	}
	if r.Tenant != "team-a" || r.Owner != "team-a" || r.Model != "m1" || r.Version != "v1" || r.ReservationID != "r-m1-v1" ||
		r.EndpointUID != e.UID || r.ObjectUID != e.ObjectUID || r.KeyID != "aaaa" || r.Path != "/v1/chat/completions" {
		t.Errorf("who and where: %+v", r)
	}
	if r.ReceivedAt.IsZero() || r.SentAt.Before(r.ReceivedAt) || r.FirstByteAt.Before(r.SentAt) ||
		r.FirstContentAt.Before(r.FirstByteAt) || r.DoneAt.Before(r.FirstContentAt) || r.LastByteAt.IsZero() {
		t.Errorf("times out of order: %+v", r)
	}
	eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
}

func TestAnswerPassesWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent string
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		sent = string(text)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wholeChat)
	})
	got := b.chat(keyA, helloChat)
	if got.status != http.StatusOK || got.body != wholeChat {
		t.Fatalf("%d %q", got.status, got.body)
	}
	if want := strings.Replace(helloChat, `"m1"`, `"engine-m1"`, 1); sent != want {
		t.Errorf("the engine got %q, want %q", sent, want)
	}
	r := b.record(got.header.Get("X-Request-Id"))
	if r.Outcome != traffic.Completed || r.PromptTokens != 7 || r.CompletionTokens != 3 || r.FirstContentAt.IsZero() || r.DoneAt.IsZero() {
		t.Errorf("record %+v", r)
	}
}
