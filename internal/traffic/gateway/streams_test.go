package gateway_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// hostile is a run of streams of every kind that an engine can make.
type hostile struct {
	*bench
	seed     uint64
	outcomes sync.Map // of traffic.Outcome, by the number of the stream
	running  atomic.Int64
	conns    atomic.Int64 // from the gateway to the engine
}

// Record implements traffic.Recorder.
func (h *hostile) Record(i traffic.Inference) {
	if i.Outcome != "" {
		h.outcomes.Store(i.ClientRequestID, i.Outcome)
	}
}

// TestHostileStreams: whatever an engine does, the caller sees the same bytes
// or an error, and never a clean end of a cut stream; and nothing is left at
// the end. MODELDOCK_SEED repeats a run. It counts goroutines, so it runs
// alone.
func TestHostileStreams(t *testing.T) { //nolint:paralleltest // see above
	h := &hostile{seed: uint64(time.Now().UnixNano())}
	if s := os.Getenv("MODELDOCK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h.seed = seed
	}
	t.Logf("MODELDOCK_SEED=%d, %d streams", h.seed, hostileStreams)
	before := runtime.NumGoroutine()
	h.bench = setup(t, func(c *gateway.Config) { c.Recorder = h })
	engine := h.listen()
	var next atomic.Uint64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1); i <= hostileStreams && !t.Failed(); i = next.Add(1) {
				h.one(i)
			}
		})
	}
	all.Wait()
	eventually(t, "the engine to end", func() bool { return h.running.Load() == 0 })
	eventually(t, "nothing in flight", func() bool {
		return h.table.InFlight(engine.UID) == 0 && h.counter("modeldock_gateway_in_flight") == 0 && h.waiting("m1") == 0
	})
	h.client.CloseIdleConnections()
	h.gateway.Close()
	eventually(t, "all connections to the engine to be closed", func() bool { return h.conns.Load() == 0 })
	// Two listeners and what belongs to the bench are left.
	eventually(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before+4 })
}

// listen starts the engine.
func (h *hostile) listen() traffic.Endpoint {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(h.serve), ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				h.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				h.conns.Add(-1)
			case http.StateActive, http.StateIdle:
			}
		},
	}
	go func() { _ = server.Serve(listener) }()
	h.t.Cleanup(func() { _ = server.Close() })
	e := endpoint("team-a", "m1", "v1", listener.Addr().String())
	h.table.Upsert(e)
	return e
}

// serve writes the answer that the request's number stands for.
func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	h.running.Add(1)
	defer h.running.Add(-1)
	_, _ = io.Copy(io.Discard, r.Body)
	i, err := strconv.ParseUint(r.Header.Get("Openai-Stream"), 10, 64)
	if err != nil {
		h.t.Error(err)
		return
	}
	plan := planOf(h.seed, i)
	header := w.Header()
	header["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	if plan.untyped {
		header["Content-Type"] = nil
	}
	if plan.gzip {
		header["Content-Encoding"] = []string{"gzip"}
	}
	if plan.closing || plan.fate == fateReset {
		h.serveRaw(w, r, &plan)
		return
	}
	plan.write(w, func() { _ = http.NewResponseController(w).Flush() })
	switch plan.fate {
	case fateBroken:
		panic(http.ErrAbortHandler)
	case fateStall:
		<-r.Context().Done()
	case fateWhole, fateClean, fateError, fateLeave, fateReset:
	}
}

// serveRaw answers on the bare connection, whose end is the body's.
func (h *hostile) serveRaw(w http.ResponseWriter, _ *http.Request, plan *streamPlan) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.t.Error(err)
		return
	}
	h.conns.Add(1) // until it is closed here
	defer h.conns.Add(-1)
	defer func() { _ = conn.Close() }()
	head := "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	for name, values := range w.Header() {
		for _, v := range values {
			head += name + ": " + v + "\r\n"
		}
	}
	_, _ = io.WriteString(conn, head+"\r\n")
	plan.write(conn, func() {})
	switch plan.fate {
	case fateReset:
		_ = conn.(*net.TCPConn).SetLinger(0)
	case fateStall, fateLeave:
		_, _ = conn.Read(make([]byte, 1)) // until the gateway leaves
	case fateWhole, fateClean, fateError, fateBroken:
	}
}

// write sends the pieces, each on its way before the next.
func (p *streamPlan) write(w io.Writer, flush func()) {
	out, deflate := w, (*gzip.Writer)(nil)
	if p.gzip {
		deflate = gzip.NewWriter(w)
		out = deflate
	}
	from := 0
	for _, to := range append(p.pieces, len(p.sent)) {
		if _, err := io.WriteString(out, p.sent[from:to]); err != nil {
			return
		}
		if deflate != nil {
			_ = deflate.Flush()
		}
		flush()
		from = to
	}
	if deflate != nil && (p.fate == fateWhole || p.fate == fateError || p.fate == fateClean) {
		_ = deflate.Close()
	}
}

// one asks for stream i and judges what came.
func (h *hostile) one(i uint64) {
	plan := planOf(h.seed, i)
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	body := helloStream
	if plan.usage {
		body = strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	request.Header.Set("Openai-Stream", strconv.FormatUint(i, 10))
	request.Header.Set("X-Request-Id", strconv.FormatUint(i, 10))
	leaves := plan.fate == fateStall || plan.fate == fateLeave
	if leaves {
		defer time.AfterFunc(time.Duration(i%20)*time.Millisecond, cancel).Stop()
	}
	got := result{status: http.StatusOK}
	answer, err := h.client.Do(request)
	if err == nil {
		text, readErr := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		got = result{answer.StatusCode, answer.Header, string(text), readErr}
	}
	if leaves {
		if got.status == http.StatusOK && !strings.HasPrefix(plan.want, strings.TrimSuffix(got.body, addedDone)) && !strings.Contains(got.body, `data: {"error":`) {
			h.t.Errorf("stream %d, left: %.300q", i, got.body)
		}
		return
	}
	if err != nil {
		h.t.Errorf("stream %d: %v", i, err)
		return
	}
	if wrong := plan.judge(got); wrong != nil {
		h.t.Errorf("stream %d (%+v): %v\ngot    %.600q\nsent   %.600q", i, plan.fate, wrong, tail(got.body), tail(plan.sent))
	}
	h.judgeOutcome(i, &plan)
}

const addedDone = "data: [DONE]\n\n"

func tail(s string) string { return s[max(0, len(s)-600):] }

// judge says what is wrong with what the caller got.
func (p *streamPlan) judge(got result) error {
	body, failure, failed := strings.Cut(got.body, `data: {"error":{"message":`)
	switch {
	case p.untyped:
		if got.status != http.StatusBadGateway || !strings.HasPrefix(got.body, `{"error":{"message":`) {
			return fmt.Errorf("status %d for what has no content type", got.status)
		}
		return nil
	case got.status != http.StatusOK:
		return fmt.Errorf("status %d", got.status)
	case p.fate == fateWhole:
		if got.err != nil || got.body != p.want {
			return fmt.Errorf("a whole stream came otherwise (%w), wanted %.600q", got.err, tail(p.want))
		}
		return nil
	case !failed && got.err == nil:
		// Only a stream whose choices are all finished may be completed.
		if whole, added := strings.CutSuffix(body, addedDone); p.finished && added && whole == p.want {
			return nil
		}
		return errors.New("a clean end of a stream that was cut")
	case strings.HasSuffix(failure, addedDone):
		return errors.New("[DONE] after an error")
	case !strings.HasPrefix(p.want, strings.TrimSuffix(body, "\n")):
		return errors.New("other bytes than were sent")
	case p.fate == fateError && !failed:
		return errors.New("the engine's error is not there")
	}
	return nil
}

// judgeOutcome compares the record with what happened.
func (h *hostile) judgeOutcome(i uint64, plan *streamPlan) {
	var got any
	eventually(h.t, fmt.Sprintf("the record of stream %d", i), func() (ok bool) {
		got, ok = h.outcomes.LoadAndDelete(strconv.FormatUint(i, 10))
		return ok
	})
	if completed := got == traffic.Completed; completed != (plan.fate == fateWhole && !plan.untyped) && !plan.finished {
		h.t.Errorf("stream %d of fate %d is recorded as %v", i, plan.fate, got)
	}
}

// TestHostileStreamsJudge: what the run must never let pass is caught.
func TestHostileStreamsJudge(t *testing.T) {
	t.Parallel()
	const failure = `data: {"error":{"message":"cut"}}` + "\n\n"
	plan := streamPlan{want: chunkEvent("a") + chunkEvent("b") + stopEvent, fate: fateClean}
	torn := errors.New("torn")
	for name, c := range map[string]struct {
		fate  fate
		body  string
		err   error
		wrong bool
	}{
		"an error after a part":      {fateClean, chunkEvent("a") + failure, torn, false},
		"a broken end":               {fateReset, chunkEvent("a"), torn, false},
		"a clean end":                {fateClean, chunkEvent("a"), nil, true},
		"a clean end with DONE":      {fateClean, chunkEvent("a") + addedDone, nil, true},
		"DONE after an error":        {fateClean, chunkEvent("a") + failure + addedDone, torn, true},
		"an event left out":          {fateClean, chunkEvent("b") + failure, torn, true},
		"an event twice":             {fateClean, chunkEvent("a") + chunkEvent("a") + failure, torn, true},
		"the engine's error missing": {fateError, chunkEvent("a"), torn, true},
		"whole":                      {fateWhole, plan.want, nil, false},
		"not whole":                  {fateWhole, chunkEvent("a"), nil, true},
	} {
		p := plan
		p.fate = c.fate
		if got := p.judge(result{status: http.StatusOK, body: c.body, err: c.err}); (got != nil) != c.wrong {
			t.Errorf("%s: %v", name, got)
		}
	}
}
