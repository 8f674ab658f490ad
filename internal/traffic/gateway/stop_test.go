package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modeldock.io/internal/traffic"
)

// TestStopTellsEveryCaller: at the end of the grace whoever is still there is
// told that the gateway stops, and neither the record nor the answer says that
// the caller left.
func TestStopTellsEveryCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var began sync.WaitGroup
	began.Add(4)
	long := strings.Repeat("x", 100<<10)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(text), "begun"):
			events(roleEvent, chunkEvent("a"), `data: {"half`)(w, r)
		case strings.Contains(string(text), "long"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"text":%q`, long)
			_ = http.NewResponseController(w).Flush()
		}
		began.Done()
		<-r.Context().Done()
	})
	asks := map[string]string{
		"begun stream":  `{"model":"m1","stream":true,"messages":[{"role":"user","content":"begun"}]}`,
		"long answer":   `{"model":"m1","messages":[{"role":"user","content":"long"}]}`,
		"silent stream": helloStream,
		"silent answer": helloChat,
		"waits":         `{"model":"m2","messages":[{"role":"user","content":"hi"}]}`,
	}
	var all sync.WaitGroup
	for name, body := range asks {
		key := keyA
		if name == "waits" {
			key = keyB
		}
		all.Go(func() { b.checkStopped(name, b.chat(key, body)) })
	}
	began.Wait()
	eventually(t, "the first chunk and the line", func() bool {
		return len(b.gateway.Waiting()) == 1 && b.metrics("modeldock_gateway_first_chunk_seconds")["team-a/m1,v1"] == 2
	})
	if b.server.Stop(0) {
		t.Error("it says that all requests had ended")
	}
	all.Wait()
}

// checkStopped is called beside the test.
func (b *bench) checkStopped(name string, got result) {
	record := b.record(got.header.Get("X-Request-Id"))
	want := traffic.UpstreamCut
	if name == "waits" {
		want = traffic.ExpiredWaiting
	}
	if record.Outcome != want || record.Error != "shutting_down" {
		b.t.Errorf("%s: the record says %s, %q", name, record.Outcome, record.Error)
	}
	switch name {
	case "begun stream":
		last := got.body[strings.LastIndex(strings.TrimSpace(got.body), "\n")+1:]
		if got.status != http.StatusOK || got.err == nil || !strings.Contains(last, `"code":"shutting_down"`) || strings.Contains(got.body, "half") {
			b.t.Errorf("%s: %d %q, %v", name, got.status, got.body, got.err)
		}
	case "long answer":
		if got.status != http.StatusOK || got.err == nil {
			b.t.Errorf("%s: %d with %d bytes, %v", name, got.status, len(got.body), got.err)
		}
	default:
		if got.status != http.StatusServiceUnavailable || record.Status != got.status || got.err != nil ||
			got.header.Get("X-Modeldock-Dropped-Reason") != "shutting-down" || got.header.Get("Retry-After") == "" ||
			!strings.Contains(got.body, `"code":"shutting_down"`) {
			b.t.Errorf("%s: %d %v %q, %v", name, got.status, got.header, got.body, got.err)
		}
	}
}
