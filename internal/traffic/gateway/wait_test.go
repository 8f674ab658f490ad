package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// later sends a request whose answer the test waits for afterwards.
func (b *bench) later(key, body string, header ...string) <-chan result {
	answer := make(chan result, 1)
	go func() { answer <- b.chat(key, body, header...) }()
	return answer
}

func (b *bench) waiting(name string) int {
	return b.gateway.Waiting()[route.Key{Owner: "team-a", Model: name, Version: "v1"}]
}

// TestColdModelIsWaitedFor: requests that came before the replica are served
// when it is there.
func TestColdModelIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var answers []<-chan result
	for range 20 {
		answers = append(answers, b.later(keyA, helloStream))
	}
	eventually(t, "20 to wait", func() bool { return b.waiting("m1") == 20 })
	if m := b.metrics("modeldock_gateway_queue_depth"); m["team-a/m1,v1"] != 20 || m["team-b/m2,v1"] != 0 || len(m) != 2 {
		t.Errorf("queue depths %v", m)
	}
	// Without a replica none runs, which is known.
	if m := b.metrics("modeldock_gateway_in_flight"); m["team-a/m1,v1"] != 0 || len(m) != 2 {
		t.Errorf("running %v", m)
	}
	b.engine("team-a", "m1", "v1", events(chunkEvent("a"), doneEvent))
	for _, a := range answers {
		got := <-a
		if got.status != 200 || got.body != chunkEvent("a")+doneEvent {
			t.Errorf("%d %q", got.status, got.body)
		}
		if r := b.record(got.header.Get("X-Request-Id")); r.QueuedFor <= 0 || r.Outcome != traffic.Completed {
			t.Errorf("record %+v", r)
		}
	}
}

func TestWaitEndsWithoutHope(t *testing.T) {
	t.Parallel()
	for _, hint := range []bool{true, false} {
		t.Run(fmt.Sprintf("hint=%t", hint), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.publish(func(s *traffic.Snapshot) { s.Models = append(s.Models, model("team-a", "second", "v1")) })
			failed := b.later(keyA, helloChat)
			removed := b.later(keyA, strings.Replace(helloChat, "m1", "second", 1))
			eventually(t, "both to wait", func() bool { return b.waiting("m1") == 1 && b.waiting("second") == 1 })
			b.publish(func(s *traffic.Snapshot) {
				s.Models[0].Failure = "the weights need 90 GiB"
				s.Models[2].ReleaseAsked = true
			})
			if hint {
				b.gateway.SnapshotChanged()
			}
			got := <-failed
			if e := errorOf(t, got); got.status != 503 || e.Code != "model_failed" || !strings.Contains(e.Message, "90 GiB") {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := <-removed; got.status != 404 {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

func TestWaitLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(func(s *traffic.Snapshot) {
		s.Models[0].MaxWaiting = 2
		s.Models[0].ExpectedAt = time.Now().Add(45 * time.Second)
	})
	first, second := b.later(keyA, helloChat), b.later(keyA, helloChat)
	eventually(t, "two to wait", func() bool { return b.waiting("m1") == 2 })
	got := b.chat(keyA, helloChat)
	if e := errorOf(t, got); got.status != http.StatusTooManyRequests || e.Code != "waiting_room_full" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if s, _ := strconv.Atoi(got.header.Get("Retry-After")); s < 30 || s > 45 {
		t.Errorf("Retry-After %d, expected in 45 s", s)
	}
	b.engine("team-a", "m1", "v1", events(doneEvent))
	if a, c := <-first, <-second; a.status != 200 || c.status != 200 {
		t.Errorf("%d %d", a.status, c.status)
	}
}

func TestCallerLowersTheWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for header, want := range map[string]int{"0": 503, "0.02": 503, "-1": 400, "soon": 400, "NaN": 400} {
		got := b.chat(keyA, helloChat, "X-Modeldock-Wait", header)
		errorOf(t, got)
		if got.status != want {
			t.Errorf("x-modeldock-wait %s: %d %s", header, got.status, got.body)
		}
	}
	// It cannot be raised: the model's own limit holds.
	b.publish(func(s *traffic.Snapshot) { s.Models[0].WaitTimeout = 10 * time.Millisecond })
	if got := b.chat(keyA, helloChat, "X-Modeldock-Wait", "3600"); got.status != 503 {
		t.Errorf("%d", got.status)
	}
}

func TestWaitingCallerLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dialRequest(helloChat)
	eventually(t, "one to wait", func() bool { return b.waiting("m1") == 1 })
	_ = conn.Close()
	eventually(t, "the place to be free", func() bool { return b.waiting("m1") == 0 })
	eventually(t, "the record", func() bool {
		all := b.records.all()
		return len(all) == 1 && all[0].Outcome == traffic.ClientCancelled && all[0].SentAt.IsZero() && all[0].QueuedFor > 0
	})
}

// TestFailedVersionWithAReplica: a replica that runs is used whatever else
// failed.
func TestFailedVersionWithAReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(func(s *traffic.Snapshot) { s.Models[0].Failure = "one card is gone" })
	b.echo("team-a", "m1", "v1")
	if got := b.chat(keyA, helloChat); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
