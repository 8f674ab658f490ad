package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// replica adds a further replica of team-a's m1 under its own UID.
func (b *bench) replica(uid string, parallel int, handler http.HandlerFunc) traffic.Endpoint {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	b.t.Cleanup(func() { _ = server.Close() })
	e := endpoint("team-a", "m1", "v1", listener.Addr().String())
	e.UID, e.Parallel = uid, parallel
	b.table.Upsert(e)
	return e
}

// deadReplica is one whose process is gone and that nobody has noticed yet.
func (b *bench) deadReplica(uid string) {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	e := endpoint("team-a", "m1", "v1", listener.Addr().String())
	e.UID = uid
	_ = listener.Close()
	b.table.Upsert(e)
}

func (b *bench) allReturned() {
	b.t.Helper()
	eventually(b.t, "every place to be given back", func() bool {
		for _, s := range b.table.Standings() {
			if s.InFlight != 0 || s.Tokens != 0 {
				return false
			}
		}
		return true
	})
}

// TestRetryOnlyBeforeTheFirstByte is C104: one replica refuses connections, one breaks
// off after three chunks, one is good. The first is hidden, the second shows as
// an error, and nobody gets a text twice.
func TestRetryOnlyBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deadReplica("a-dead")
	var cut, good atomic.Int64
	b.replica("b-cuts", 0, func(w http.ResponseWriter, r *http.Request) {
		cut.Add(1)
		events(roleEvent, chunkEvent("a"), chunkEvent("b"))(w, r)
		panic(http.ErrAbortHandler)
	})
	b.replica("c-good", 0, func(w http.ResponseWriter, r *http.Request) {
		good.Add(1)
		events(roleEvent, chunkEvent("a"), stopEvent, doneEvent)(w, r)
	})
	var broken, whole int
	for range 100 {
		got := b.chat(keyA, helloStream)
		switch {
		case got.status != 200 || strings.Count(got.body, roleEvent) > 1 || strings.Count(got.body, chunkEvent("a")) > 1:
			t.Fatalf("%d %q", got.status, got.body)
		case strings.HasSuffix(got.body, doneEvent):
			whole++
		case strings.Contains(got.body, `"upstream_cut"`):
			broken++
		default:
			t.Fatalf("a broken stream looks complete: %q", got.body)
		}
	}
	if int64(broken) != cut.Load() || int64(whole) != good.Load() || whole == 0 || broken == 0 {
		t.Errorf("%d broken and %d whole answers; the engines got %d and %d", broken, whole, cut.Load(), good.Load())
	}
	if b.counter("modeldock_gateway_retries_total") == 0 {
		t.Error("no retry was counted")
	}
	b.allReturned()
}

// TestRefusalBeforeTheWork: a 503 goes to another replica, with the body whole
// and the model's name that this one knows; other errors stay.
func TestRefusalBeforeTheWork(t *testing.T) {
	t.Parallel()
	for _, status := range []int{503, 500, 429, 400} {
		b := setup(t)
		var asked, served atomic.Int64
		e := b.replica("p1", 0, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			http.Error(w, `{"error":{"message":"not now","type":"x","code":"busy"}}`, status)
		})
		var body atomic.Value
		other := b.replica("p2", 0, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			body.Store(string(text))
			served.Add(1)
			_, _ = io.WriteString(w, wholeChat)
		})
		other.Upstream = "another-name"
		b.table.Upsert(other)
		// Make the refusing one the better choice.
		busy, ok := b.table.Acquire(keyOfEndpoint(e), demandFor(t, b, e))
		if !ok || busy.Endpoint().UID != "p2" {
			t.Fatal("setup: wanted a place on p2")
		}
		got := b.chat(keyA, helloChat)
		if asked.Load() != 1 {
			t.Fatalf("%d: the refusing replica was asked %d times", status, asked.Load())
		}
		if status != 503 {
			if got.status < 400 || served.Load() != 0 {
				t.Errorf("%d was repeated on another replica: %d", status, got.status)
			}
		} else if want := strings.Replace(helloChat, "m1", "another-name", 1); got.status != 200 || body.Load() != want {
			t.Errorf("%d %s; the second replica got %v", got.status, got.body, body.Load())
		}
		busy.Release()
		b.allReturned()
	}
}

// TestOnlyReplicaRefuses: its own words reach the caller.
func TestOnlyReplicaRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.replica("p1", 0, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"the model sleeps","type":"x","code":"sleeping"}}`, http.StatusServiceUnavailable)
	})
	if got := b.chat(keyA, helloChat); got.status != 503 || !strings.Contains(got.body, "the model sleeps") {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.allReturned()
}

// TestDeadOnlyReplicaIsWaitedOut: between an engine's death and its successor
// callers wait and are served by the latter.
func TestDeadOnlyReplicaIsWaitedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deadReplica("p1")
	var answers []<-chan result
	for range 20 {
		answers = append(answers, b.later(keyA, helloChat))
	}
	eventually(t, "all to wait", func() bool { return b.waiting("m1") == 20 })
	b.table.Remove("p1")
	b.replica("p2", 4, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
	for _, a := range answers {
		if got := <-a; got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	b.allReturned()
}

// TestEngineKilledUnderLoad: the listener and all connections of one of two
// engines die while 32 callers keep calling. Who had not been sent is served
// by the other one; only answers that were under way may fail.
func TestEngineKilledUnderLoad(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *gateway.Config) { cfg.MaxBody = 1 << 20 })
	var sent atomic.Int64
	b.replica("stays", 0, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dying := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		_, _ = io.WriteString(w, wholeChat)
	})}
	go func() { _ = dying.Serve(listener) }()
	e := endpoint("team-a", "m1", "v1", listener.Addr().String())
	e.UID = "dies"
	b.table.Upsert(e)

	var all sync.WaitGroup
	var unreachable, cut, done atomic.Int64
	var stop atomic.Bool
	for range 32 {
		all.Go(func() {
			for !stop.Load() {
				switch got := b.chat(keyA, helloChat); {
				case got.status == 200:
					done.Add(1)
				case strings.Contains(got.body, "upstream_cut"):
					cut.Add(1)
				default:
					unreachable.Add(1)
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	eventually(t, "both to serve", func() bool { return sent.Load() > 50 })
	_ = dying.Close()
	before := done.Load()
	eventually(t, "calls to go on", func() bool { return done.Load() > before+200 })
	stop.Store(true)
	all.Wait()
	if cut.Load() > 32 || unreachable.Load() > 0 {
		t.Errorf("%d answers were cut, %d calls found nobody", cut.Load(), unreachable.Load())
	}
	b.allReturned()
}
