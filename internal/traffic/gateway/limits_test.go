package gateway_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/limit"
)

// counted is a gateway that counts in memory.
type counted struct {
	*bench
	memory *limit.Memory
}

func setupLimits(t *testing.T, limits traffic.Limits) counted {
	t.Helper()
	memory := limit.NewMemory(time.Now)
	b := setup(t, func(c *gateway.Config) { c.Limiter = memory })
	b.publish(func(s *traffic.Snapshot) { s.Limits = map[string]traffic.Limits{"team-a": limits} })
	return counted{b, memory}
}

func (c counted) idle() {
	c.t.Helper()
	eventually(c.t, "all slots to come back", func() bool { return c.memory.Held("team-a", "") == 0 })
}

func whole(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
}

func header(r result, name string) string { return r.header.Get(name) }

// TestRequestsOverTheLimit is C112: a refusal tells when to come back.
func TestRequestsOverTheLimit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 12}, Window: 10 * time.Second})
	b.engine("team-a", "m1", "v1", whole(wholeChat))
	for left := 1; left >= 0; left-- {
		r := b.chat(keyA, helloChat)
		if r.status != 200 || header(r, "X-Ratelimit-Limit-Requests") != "12" || header(r, "X-Ratelimit-Remaining-Requests") != strconv.Itoa(left) || header(r, "X-Ratelimit-Limit-Tokens") != "" {
			t.Fatalf("%d %v", r.status, r.header)
		}
		if reset, err := time.ParseDuration(header(r, "X-Ratelimit-Reset-Requests")); err != nil || reset <= 0 || reset > 10*time.Second {
			t.Errorf("reset %q", header(r, "X-Ratelimit-Reset-Requests"))
		}
	}
	r := b.chat(keyA, helloChat)
	e := errorOf(t, r)
	wait, err := strconv.Atoi(header(r, "Retry-After"))
	if r.status != 429 || e.Type != "rate_limit_error" || e.Code != "rate_limit_exceeded" || err != nil || wait < 1 || wait > 5 {
		t.Errorf("%d %+v, Retry-After %q", r.status, e, header(r, "Retry-After"))
	}
	if header(r, "X-Modeldock-Dropped-Reason") != "rejected-limit" || header(r, "X-Ratelimit-Remaining-Requests") != "0" || !strings.Contains(e.Message, "0 of its 12 requests per minute left, and this request needs 1;") {
		t.Errorf("%v %s", r.header, e.Message)
	}
	if rec := b.record(header(r, "X-Request-Id")); rec.Outcome != traffic.RejectedLimit || rec.Status != 429 || rec.Model != "m1" {
		t.Errorf("record %+v", rec)
	}
	if m := b.metrics("modeldock_gateway_limit_refusals_total"); m["requests_per_minute"] != 1 {
		t.Errorf("metrics %v", m)
	}
	b.engine("team-b", "m2", "v1", whole(wholeChat))
	if r := b.chat(keyB, strings.Replace(helloChat, "m1", "m2", 1)); r.status != 200 || header(r, "X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("another tenant got %d %v", r.status, r.header)
	}
	b.idle()
}

// Tokens are reserved by what the request asks for and settled by its usage,
// which the engine reports as ten.
func TestTokensAreSettledByUsage(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{TokensPerMinute: 1000}})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Openai-Client") == "stream" {
			events(chunkEvent("a"), stopEvent, usageEvent, doneEvent)(w, r)
			return
		}
		whole(wholeChat)(w, r)
	})
	body := strings.Replace(helloChat, `{`, `{"max_tokens":900,`, 1)
	for n := range 4 {
		ask, kind := body, ""
		if n%2 == 1 {
			ask, kind = strings.Replace(body, `{`, `{"stream":true,`, 1), "stream"
		}
		r := b.chat(keyA, ask, "Openai-Client", kind)
		left, err := strconv.Atoi(header(r, "X-Ratelimit-Remaining-Tokens"))
		// The reservation is 900 and a few for the prompt; each call before took 10.
		if r.status != 200 || err != nil || left > 1000-900-10*n || left < 1000-900-10*n-40 {
			t.Fatalf("call %d: %d, %d tokens left", n, r.status, left)
		}
	}
	b.idle()
}

// A request that no model worked for costs no tokens: the engine refused it,
// could not be reached, or its caller was turned away.
func TestTokensComeBack(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{TokensPerMinute: 1000}})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`))
	})
	body := strings.Replace(helloChat, `{`, `{"max_tokens":900,`, 1)
	for range 3 {
		if r := b.chat(keyA, body); r.status != 400 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.table.Set([]traffic.Endpoint{endpoint("team-a", "m1", "v1", "127.0.0.1:1")})
	for range 3 {
		if r := b.chat(keyA, body, "X-Modeldock-Wait", "1"); r.status != 503 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.table.Set(nil)
	for range 3 {
		if r := b.chat(keyA, body, "X-Modeldock-Wait", "0"); r.status != 503 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.idle()
}

// The slot of a stream is free as soon as its caller sees the end, however the
// stream ends.
func TestSlotsComeBackOnEveryExit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{PerKey: traffic.Rates{Concurrency: 1}})
	begun, end := make(chan struct{}, 1), make(chan string)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		events(chunkEvent("a"))(w, r)
		begun <- struct{}{}
		switch how := <-end; how {
		case "done":
			events(stopEvent, doneEvent)(w, r)
		case "error":
			events(`data: {"error":{"message":"out of memory"}}`+"\n\n")(w, r)
		case "panic":
			panic(http.ErrAbortHandler)
		}
	})
	for round := range 20 {
		for _, how := range []string{"done", "error", "panic"} {
			first := b.later(keyA, helloStream)
			<-begun
			if r := b.chat(keyA, helloStream); r.status != 429 || header(r, "Retry-After") != "1" || !strings.Contains(r.body, "this API key") {
				t.Fatalf("a second request at once got %d %s", r.status, r.body)
			}
			end <- how
			if r := <-first; r.status != 200 || strings.Contains(r.body, "[DONE]") != (how == "done") {
				t.Fatalf("%s: %d %q", how, r.status, r.body)
			}
			if how == "done" && b.memory.Held("team-a", "aaaa") != 0 {
				t.Fatalf("round %d: the caller saw the end before its slot was free", round)
			}
			eventually(t, "the slot after "+how, func() bool { return b.memory.Held("team-a", "aaaa") == 0 })
		}
	}
	// A caller who leaves, in the stream and while it waits.
	caller := b.dialRequest(helloStream)
	<-begun
	_ = caller.Close()
	eventually(t, "the slot of one who left", func() bool { return b.memory.Held("team-a", "aaaa") == 0 })
	close(end)
	b.table.Set(nil)
	caller = b.dialRequest(helloStream)
	eventually(t, "it to wait", func() bool { return b.waiting("m1") == 1 })
	_ = caller.Close()
	eventually(t, "the slot of one who left the waiting room", func() bool { return b.memory.Held("team-a", "aaaa") == 0 })
}

func TestDailyBudgetIsNotRetried(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{TokensPerDay: 15}})
	b.engine("team-a", "m1", "v1", whole(wholeChat))
	if r := b.chat(keyA, helloChat); r.status != 200 || header(r, "X-Ratelimit-Limit-Tokens") != "15" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	r := b.chat(keyA, helloChat) // 10 are spent, and this one may use more than 5
	e := errorOf(t, r)
	if after, err := strconv.Atoi(header(r, "Retry-After")); r.status != 429 || e.Code != "daily_budget_exhausted" || header(r, "X-Should-Retry") != "false" || err != nil || after < 1 || after > 120 ||
		!strings.Contains(e.Message, "5 of its 15 tokens per day left, and this request needs 15;") || !strings.Contains(e.Message, "a smaller request") {
		t.Errorf("%d %+v %v", r.status, e, r.header)
	}
}

// Of 40 requests at once exactly as many are admitted as the limit says.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{Concurrency: 7}})
	answers := make(chan result, 40)
	for range 40 {
		go func() { answers <- b.chat(keyA, helloChat) }()
	}
	for range 33 {
		if r := <-answers; r.status != 429 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.engine("team-a", "m1", "v1", whole(wholeChat))
	for range 7 {
		if r := <-answers; r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.idle()
}

// An engine cannot pose as the gateway's limits.
func TestEnginesDoNotTellLimits(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 60}})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Remaining-Requests", "999999")
		w.Header().Set("X-Ratelimit-Limit-Tokens", "5")
		whole(wholeChat)(w, r)
	})
	if r := b.chat(keyA, helloChat); header(r, "X-Ratelimit-Remaining-Requests") != "59" || header(r, "X-Ratelimit-Limit-Tokens") != "" {
		t.Errorf("%v", r.header)
	}
}

// One greedy tenant is held to its limit; the others do not notice.
func TestGreedyTenantIsHeld(t *testing.T) {
	t.Parallel()
	b := setupLimits(t, traffic.Limits{Together: traffic.Rates{Concurrency: 2}})
	release := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) { <-release; whole(wholeChat)(w, r) })
	b.engine("team-b", "m2", "v1", whole(wholeChat))
	var greedy sync.WaitGroup
	statuses := make(chan int, 50)
	for range 50 {
		greedy.Go(func() { statuses <- b.chat(keyA, helloChat).status })
	}
	eventually(t, "the greedy one to be held", func() bool { return len(statuses) == 48 })
	for range 20 {
		if r := b.chat(keyB, strings.Replace(helloChat, "m1", "m2", 1)); r.status != 200 {
			t.Fatalf("a modest tenant got %d %s", r.status, r.body)
		}
	}
	if n := b.table.InFlight("pod-team-am1v1"); n != 2 {
		t.Errorf("%d requests of the greedy tenant run", n)
	}
	close(release)
	greedy.Wait()
	b.idle()
}

// TestClaimedUsageIsBounded: what an engine says that its caller used counts
// only as far as it can be true, whether it answers at once or in events.
func TestClaimedUsageIsBounded(t *testing.T) {
	t.Parallel()
	claim := strings.NewReplacer(`"prompt_tokens":7`, `"prompt_tokens":1000000000000`, `"completion_tokens":3`, `"completion_tokens":1000000000000`)
	for name, c := range map[string]struct {
		engine http.HandlerFunc
		body   string
		answer int64 // tokens that it may count for at most
	}{
		"at once":       {whole(claim.Replace(wholeChat)), helloChat, int64(len(claim.Replace(wholeChat)))},
		"bounded":       {whole(claim.Replace(wholeChat)), strings.Replace(helloChat, "{", `{"max_tokens":20,`, 1), 20},
		"in events":     {events(chunkEvent("a"), stopEvent, claim.Replace(usageEvent), doneEvent), helloStream, int64(len(chunkEvent("a") + stopEvent + doneEvent))},
		"a long answer": {whole(claim.Replace(strings.Replace(wholeChat, "hello", strings.Repeat("a", 100_000), 1))), helloChat, 101_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const day = 1_000_000
			b := setupLimits(t, traffic.Limits{Together: traffic.Rates{TokensPerDay: day}})
			b.engine("team-a", "m1", "v1", c.engine)
			if r := b.chat(keyA, c.body); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			b.idle()
			r := b.chat(keyA, c.body)
			left, err := strconv.ParseInt(header(r, "X-Ratelimit-Remaining-Tokens"), 10, 64)
			const reserved = 300 // for the second
			if least := day - int64(len(c.body)) - c.answer - reserved; r.status != http.StatusOK || err != nil || left < least {
				t.Errorf("%d, %d tokens are left, at least %d should", r.status, left, least)
			}
		})
	}
}

// TestTakingLimitsAwayEndsDebts: an administrator who takes a tenant's limits
// away and sets them again lets it begin anew.
func TestTakingLimitsAwayEndsDebts(t *testing.T) {
	t.Parallel()
	limits := traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 1, TokensPerDay: 1000}, PerKey: traffic.Rates{RequestsPerMinute: 1}}
	b := setupLimits(t, limits)
	b.engine("team-a", "m1", "v1", whole(wholeChat))
	for _, want := range []int{200, 429} {
		if r := b.chat(keyA, helloChat); r.status != want {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	b.idle()
	for _, next := range []map[string]traffic.Limits{nil, {"team-a": limits}} {
		b.publish(func(s *traffic.Snapshot) { s.Limits = next })
		b.gateway.SnapshotChanged()
	}
	if r := b.chat(keyA, helloChat); r.status != http.StatusOK || header(r, "X-Ratelimit-Limit-Tokens") != "1000" {
		t.Errorf("%d %s", r.status, r.body)
	}
}
