package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

// dialRequest sends a request by hand, so that the test decides how the
// connection ends.
func (b *bench) dialRequest(body string) *net.TCPConn {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		keyA, len(body), body)
	if err != nil {
		b.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// TestCallerLeaves is C099: by FIN or RST, in a stream, before its first byte, and
// while a whole answer is computed. The engine learns it and the place is free.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		for _, when := range []string{"mid-stream", "before the first byte", "whole answer"} {
			t.Run(fmt.Sprintf("%s, reset=%t", when, reset), func(t *testing.T) {
				t.Parallel()
				checkLeaving(t, when, reset)
			})
		}
	}
}

func checkLeaving(t *testing.T, when string, reset bool) {
	t.Helper()
	b := setup(t)
	began, left := make(chan struct{}), make(chan struct{})
	e := b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if when == "mid-stream" {
			events(roleEvent, chunkEvent("a"))(w, r)
		}
		close(began)
		<-r.Context().Done()
		close(left)
	})
	body := helloStream
	if when == "whole answer" {
		body = helloChat
	}
	conn := b.dialRequest(body)
	<-began
	if when == "mid-stream" {
		reader := bufio.NewReader(conn)
		for line := ""; !strings.Contains(line, `"content":"a"`); {
			var err error
			if line, err = reader.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	if reset {
		_ = conn.SetLinger(0)
	}
	_ = conn.Close()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the engine works on for nobody")
	}
	eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
	var last traffic.Inference
	eventually(t, "the record", func() bool {
		for _, last = range b.records.all() {
			if last.Outcome == traffic.ClientCancelled {
				return true
			}
		}
		return false
	})
	if last.SentAt.IsZero() || (when == "mid-stream") == last.FirstContentAt.IsZero() || !last.DoneAt.IsZero() {
		t.Errorf("record %+v", last)
	}
}

// TestRunningStreamIsRecorded: the proof of the first chunk does not wait for
// the stream's end.
func TestRunningStreamIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		events(roleEvent, chunkEvent("a"))(w, r)
		<-r.Context().Done()
	})
	conn := b.dialRequest(helloStream)
	eventually(t, "the record of the first chunk", func() bool { return len(b.records.all()) == 1 })
	first := b.records.all()[0]
	if first.FirstContentAt.IsZero() || first.Outcome != "" || !first.DoneAt.IsZero() {
		t.Errorf("record %+v", first)
	}
	_ = conn.Close()
	eventually(t, "the final record", func() bool { return len(b.records.all()) == 2 })
	if final := b.records.all()[1]; final.RequestID != first.RequestID || final.Outcome != traffic.ClientCancelled {
		t.Errorf("final record %+v", final)
	}
}

// TestSlowReaderIsHeldByFlowControl: the engine cannot get far ahead of a
// caller who does not read.
func TestSlowReaderIsHeldByFlowControl(t *testing.T) {
	t.Parallel()
	b := setup(t)
	event := chunkEvent(strings.Repeat("x", 8<<10))
	const events = 8_000 // 64 MiB, more than any socket buffer
	written := make(chan int, events)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range events {
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
			written <- i
		}
		_, _ = io.WriteString(w, doneEvent)
	})
	conn := b.dialRequest(helloStream)
	// The engine is stuck once it makes no progress for a while.
	last, stuck := 0, time.NewTimer(time.Minute)
	for waiting := true; waiting; {
		select {
		case last = <-written:
			stuck.Reset(500 * time.Millisecond)
		case <-stuck.C:
			waiting = false
		}
	}
	if last >= events-1 {
		t.Fatal("the whole stream was taken for a caller who reads nothing")
	}
	text, err := io.ReadAll(io.LimitReader(conn, int64(events*len(event))))
	if err != nil || strings.Count(string(text), "data: {") < events-100 {
		t.Errorf("after that the caller got %d bytes, %v", len(text), err)
	}
}
