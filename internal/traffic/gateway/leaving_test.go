package gateway_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/limit"
)

// audited is a Limiter that notes what was taken and what was settled.
type audited struct {
	*limit.Memory
	mu      sync.Mutex
	taken   map[string]int64   // tokens reserved, by request
	settled map[string][]int64 // tokens used
}

func (a *audited) Take(ctx context.Context, d limit.Demand) limit.Decision {
	out := a.Memory.Take(ctx, d)
	a.mu.Lock()
	defer a.mu.Unlock()
	if out.Refusal == nil {
		a.taken[d.ID] = d.Tokens
	}
	return out
}

func (a *audited) Settle(ctx context.Context, lease limit.Lease, used int64) {
	a.Memory.Settle(ctx, lease, used)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled[lease.ID] = append(a.settled[lease.ID], used)
}

// leavers is a run of callers of whom one in ten leaves at a random moment.
type leavers struct {
	*bench
	accounts     *audited
	began, ended atomic.Int64 // on the engines
	mu           sync.Mutex
	left         map[string]time.Time // by the caller's own id
	wrote        map[string]int64     // chunks, by the same
}

const (
	leavingCallers = 600
	dailyTokens    = 1 << 40
	usedByWhole    = 10 // what usageEvent says
	promptOfWhole  = 7  // of that
)

// TestLeavingAtRandom: under load one caller in ten leaves at a random moment,
// in line, before the answer and in it. Every engine that had begun learns it
// within a second, nothing stays in flight, and each request is recorded and
// charged exactly once, for what it used.
func TestLeavingAtRandom(t *testing.T) {
	t.Parallel()
	l := &leavers{
		accounts: &audited{Memory: limit.NewMemory(time.Now), taken: map[string]int64{}, settled: map[string][]int64{}},
		left:     map[string]time.Time{}, wrote: map[string]int64{},
	}
	l.bench = setup(t, func(c *gateway.Config) { c.Limiter = l.accounts })
	l.publish(func(s *traffic.Snapshot) {
		s.Models[0].MaxWaiting = 1000
		s.Limits = map[string]traffic.Limits{"team-a": {Together: traffic.Rates{TokensPerDay: dailyTokens, Concurrency: leavingCallers}}}
	})
	l.replica("p1", 8, l.serve)
	l.replica("p2", 8, l.serve)
	whole := l.call()
	l.allReturned()
	eventually(t, "the engines to end", func() bool { return l.began.Load() == l.ended.Load() })
	if n := l.waiting("m1"); n != 0 {
		t.Errorf("%d still wait", n)
	}
	eventually(t, "all slots to come back", func() bool {
		return l.accounts.Held("team-a", "") == 0 && l.counter("modeldock_gateway_in_flight") == 0
	})
	l.recordedOnce(whole)
	l.chargedOnce()
}

// call sends all requests and returns how many streams came to their end.
func (l *leavers) call() (whole int64) {
	var all sync.WaitGroup
	var ended atomic.Int64
	for i := range leavingCallers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(l.t.Context())
			defer cancel()
			id := fmt.Sprint(i)
			if i%10 == 0 {
				time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() {
					l.mu.Lock()
					l.left[id] = time.Now()
					l.mu.Unlock()
					cancel()
				})
			}
			if l.streamed(ctx, id) {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	if ended.Load() < leavingCallers*9/10 {
		l.t.Errorf("%d of %d streams came to their end, and nine in ten callers stayed", ended.Load(), leavingCallers)
	}
	return ended.Load()
}

// serve is the engine.
func (l *leavers) serve(w http.ResponseWriter, r *http.Request) {
	l.began.Add(1)
	defer l.ended.Add(1)
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Openai-Test-Id")
	w.Header().Set("Content-Type", "text/event-stream")
	for range 8 {
		select {
		case <-r.Context().Done():
			l.mu.Lock()
			at := l.left[id]
			l.mu.Unlock()
			if late := time.Since(at); at.IsZero() || late > leaveLimit {
				l.t.Errorf("engine of caller %s was cancelled %s after it left", id, late)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
		l.mu.Lock()
		l.wrote[id]++
		l.mu.Unlock()
		_, _ = io.WriteString(w, chunkEvent("a"))
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, stopEvent+usageEvent+doneEvent)
}

// streamed sends a stream and tells whether it came to its end.
func (l *leavers) streamed(ctx context.Context, id string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/chat/completions", strings.NewReader(helloStream))
	if err != nil {
		l.t.Error(err)
		return false
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	request.Header.Set("Openai-Test-Id", id)
	request.Header.Set("X-Request-Id", id)
	response, err := l.client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && !strings.HasSuffix(string(text), doneEvent) {
		l.t.Errorf("caller %s got %d %.200q", id, response.StatusCode, text)
	}
	return err == nil
}

// recordedOnce: whoever reached the gateway has one last word in the records,
// and it is that of its stream.
func (l *leavers) recordedOnce(whole int64) {
	l.t.Helper()
	final := map[string]traffic.Inference{}
	eventually(l.t, "every record", func() bool {
		for _, r := range l.records.all() {
			if r.Outcome != "" {
				final[r.RequestID] = r
			}
		}
		return float64(len(final)) >= l.counter("modeldock_gateway_requests_total")
	})
	for _, r := range l.records.all() {
		if r.Outcome == "" {
			continue // of a stream that went on
		}
		if before, twice := final[r.RequestID]; twice && before.Outcome != r.Outcome {
			l.t.Errorf("%s is recorded as %s and as %s", r.RequestID, before.Outcome, r.Outcome)
		}
		final[r.RequestID] = r
	}
	var completed int64
	for _, r := range final {
		switch r.Outcome { //nolint:exhaustive // the others are wrong here
		case traffic.Completed:
			completed++
		case traffic.ClientCancelled:
			if l.left[r.ClientRequestID].IsZero() {
				l.t.Errorf("caller %s stayed and is recorded as gone", r.ClientRequestID)
			}
		default:
			l.t.Errorf("caller %s is recorded as %s: %s", r.ClientRequestID, r.Outcome, r.Error)
		}
	}
	if completed < whole {
		l.t.Errorf("%d streams came to their end, %d are recorded so", whole, completed)
	}
}

// chargedOnce: each reservation was settled once, for what its record says,
// and the tenant's day has exactly the sum of that.
func (l *leavers) chargedOnce() {
	a := l.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	var sum int64
	for _, r := range l.records.all() {
		used, reserved := a.settled[r.RequestID], a.taken[r.RequestID]
		if r.Outcome == "" || reserved == 0 {
			continue
		}
		if len(used) != 1 {
			l.t.Fatalf("request %s was settled %d times: %v", r.RequestID, len(used), used)
		}
		const answer = 256 // what is assumed for one that nothing bounds
		prompt, wrote := reserved-answer, l.wrote[r.ClientRequestID]
		switch n := used[0]; {
		case r.Outcome == traffic.Completed && n == usedByWhole:
		case r.Outcome == traffic.ClientCancelled && (n == 0 && r.SentAt.IsZero() || n == reserved && r.FirstContentAt.IsZero() ||
			n > prompt && n <= prompt+wrote ||
			wrote == 8 && (n == usedByWhole || n == promptOfWhole+wrote)): // it left after the usage; what was relayed counts at least
		default:
			l.t.Errorf("request %s (%s) reserved %d, was charged %d, and its engine wrote %d chunks", r.RequestID, r.Outcome, reserved, n, wrote)
		}
	}
	for id := range a.taken {
		if len(a.settled[id]) != 1 {
			l.t.Errorf("request %s was settled %d times", id, len(a.settled[id]))
			continue
		}
		sum += a.settled[id][0]
	}
	probe := a.Memory.Take(l.t.Context(), limit.Demand{ID: "probe", Tenant: "team-a", Key: "k", Limits: l.snapshot.Load().Limits["team-a"]})
	if spent := dailyTokens - probe.Tokens.Remaining; spent != sum {
		l.t.Errorf("the tenant's day has %d tokens, its requests used %d", spent, sum)
	}
}
