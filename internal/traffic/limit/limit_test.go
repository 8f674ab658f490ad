package limit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/limit"
)

// stage is a memory of counts with a clock that the test moves.
type stage struct {
	*limit.Memory
	now    time.Time
	next   int
	limits traffic.Limits
}

func newStage(limits traffic.Limits) *stage {
	s := &stage{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), limits: limits}
	s.Memory = limit.NewMemory(func() time.Time { return s.now })
	return s
}

func (s *stage) take(key string, tokens int64) limit.Decision {
	s.next++
	return s.Take(context.Background(), limit.Demand{ID: fmt.Sprint(s.next), Tenant: "t", Key: key, Limits: s.limits, Tokens: tokens})
}

func (s *stage) admitted(t *testing.T, key string, tokens int64) limit.Decision {
	t.Helper()
	d := s.take(key, tokens)
	if d.Refusal != nil {
		t.Fatalf("refused: %+v", *d.Refusal)
	}
	return d
}

func (s *stage) refused(t *testing.T, key string, tokens int64, what limit.What) limit.Refusal {
	t.Helper()
	d := s.take(key, tokens)
	if d.Refusal == nil || d.Refusal.What != what {
		t.Fatalf("got %+v, want a refusal by %s", d.Refusal, what)
	}
	return *d.Refusal
}

// Two per ten seconds: of five at once two pass, and the next one after
// exactly as long as the refusal said.
func TestRequestsComeBackWhenTold(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 12}, Window: 10 * time.Second})
	first := s.admitted(t, "k", 0)
	if r := first.Requests; r.Limit != 12 || r.Remaining != 1 || r.Reset != 5*time.Second {
		t.Errorf("standing is %+v", r)
	}
	s.admitted(t, "k", 0)
	for range 3 {
		if r := s.refused(t, "k", 0, limit.Requests); r.Wait != 5*time.Second || r.Key || r.Limit != 12 {
			t.Errorf("refusal is %+v", r)
		}
	}
	s.now = s.now.Add(5*time.Second - time.Millisecond)
	s.refused(t, "k", 0, limit.Requests)
	s.now = s.now.Add(time.Millisecond)
	s.admitted(t, "k", 0)
	s.refused(t, "k", 0, limit.Requests)
}

func TestTokensAreReservedAndSettled(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{TokensPerMinute: 600}})
	big := s.admitted(t, "k", 500)
	if big.Tokens.Remaining != 100 {
		t.Errorf("standing is %+v", big.Tokens)
	}
	s.refused(t, "k", 200, limit.Tokens)
	s.Settle(context.Background(), big.Lease, 100)
	s.admitted(t, "k", 500)
	// One that used more than it reserved leaves a debt that the refill pays.
	s.now = s.now.Add(time.Minute)
	small := s.admitted(t, "k", 10)
	s.Settle(context.Background(), small.Lease, 1200)
	if r := s.refused(t, "k", 1, limit.Tokens); r.Wait != 60100*time.Millisecond {
		t.Errorf("a debt of 600 and one token take %s", r.Wait)
	}
	// What is larger than the limit waits for a full bucket, not for ever.
	s.now = s.now.Add(3 * time.Minute)
	s.admitted(t, "k", 1_000_000)
	s.refused(t, "k", 1, limit.Tokens)
}

// However much was used, the debt is one bucket: two minutes later all is well.
func TestDebtsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{TokensPerMinute: 600}, PerKey: traffic.Rates{TokensPerMinute: 60}})
	s.Settle(context.Background(), s.admitted(t, "k", 10).Lease, 1_000_000_000_000)
	if r := s.refused(t, "k", 600, limit.Tokens); r.Wait != 2*time.Minute {
		t.Errorf("wait %s", r.Wait)
	}
	s.now = s.now.Add(2 * time.Minute)
	s.admitted(t, "k", 600)
}

// Who is forgotten begins anew; what runs keeps its slot.
func TestForgetBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 1, TokensPerDay: 10, Concurrency: 2}, PerKey: traffic.Rates{RequestsPerMinute: 1}})
	s.admitted(t, "k", 10)
	s.refused(t, "k", 1, limit.DailyTokens)
	s.Forget(context.Background(), "t", []string{"k"})
	s.admitted(t, "k", 10)
	if s.Held("t", "") != 2 || s.Held("t", "k") != 2 {
		t.Errorf("held are %d and %d", s.Held("t", ""), s.Held("t", "k"))
	}
	s.Forget(context.Background(), "t", []string{"k"})
	s.refused(t, "k", 1, limit.Concurrency)
}

func TestDailyTokensEndWithTheDay(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{TokensPerDay: 1000}})
	late := s.admitted(t, "k", 900)
	if r := s.refused(t, "k", 101, limit.DailyTokens); r.Wait != 18*time.Hour+53*time.Minute+53*time.Second {
		t.Errorf("the day ends in %s", r.Wait)
	}
	s.admitted(t, "k", 100)
	s.now = s.now.Add(19 * time.Hour)
	s.admitted(t, "k", 1000)
	s.Settle(context.Background(), late.Lease, 5)
	s.refused(t, "k", 1, limit.DailyTokens)
}

func TestEachKeyHasItsOwn(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{Concurrency: 3}, PerKey: traffic.Rates{Concurrency: 2}})
	a := s.admitted(t, "a", 0)
	s.admitted(t, "a", 0)
	if r := s.refused(t, "a", 0, limit.Concurrency); !r.Key || r.Limit != 2 {
		t.Errorf("refusal is %+v", r)
	}
	s.admitted(t, "b", 0)
	if r := s.refused(t, "b", 0, limit.Concurrency); r.Key || r.Limit != 3 {
		t.Errorf("refusal is %+v", r)
	}
	s.Settle(context.Background(), a.Lease, 0)
	s.admitted(t, "b", 0)
	if s.Held("t", "") != 3 || s.Held("t", "b") != 2 {
		t.Errorf("held are %d and %d", s.Held("t", ""), s.Held("t", "b"))
	}
}

// A limit that is set while calls go on begins with a full bucket.
func TestLimitsMayChange(t *testing.T) {
	t.Parallel()
	s := newStage(traffic.Limits{Together: traffic.Rates{Concurrency: 1000}})
	for range 500 {
		s.admitted(t, "k", 1000)
	}
	s.limits = traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 2, TokensPerMinute: 10}}
	s.admitted(t, "k", 1)
	s.admitted(t, "k", 1)
	s.refused(t, "k", 1, limit.Requests)
}

func TestDivideLeavesEveryoneSome(t *testing.T) {
	t.Parallel()
	got := limit.Divide(traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 10, Concurrency: 1}}, 3)
	if want := (traffic.Rates{RequestsPerMinute: 4, Concurrency: 1}); got.Together != want || got.PerKey != (traffic.Rates{}) {
		t.Errorf("a third is %+v", got)
	}
}

// Whatever comes and goes: never more at once than allowed, never more in any
// stretch of time than the bucket and its refill, slots all back at the end,
// a refusal changes nothing, and what was told to wait passes after that.
func TestNeverMoreThanAllowed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rates := traffic.Rates{
			RequestsPerMinute: rapid.Int64Range(1, 300).Draw(t, "rpm"), TokensPerMinute: rapid.Int64Range(10, 3000).Draw(t, "tpm"),
			Concurrency: rapid.Int64Range(1, 5).Draw(t, "concurrency"), TokensPerDay: rapid.Int64Range(100, 100_000).Draw(t, "tpd"),
		}
		window := time.Duration(rapid.IntRange(1, 60).Draw(t, "window")) * time.Second
		s := newStage(traffic.Limits{Together: rates, Window: window})
		began, passed := s.now, 0.0
		var running []limit.Lease
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				if len(running) > 0 {
					used := rapid.Int64Range(0, 200).Draw(t, "used")
					s.Settle(context.Background(), running[0], used)
					running = running[1:]
				}
			default:
				tokens := rapid.Int64Range(0, 200).Draw(t, "tokens")
				d := s.take("k", tokens)
				if d.Refusal == nil {
					running, passed = append(running, d.Lease), passed+1
					break
				}
				if again := s.take("k", tokens); again.Refusal == nil || *again.Refusal != *d.Refusal {
					t.Fatalf("refused by %+v, then by %+v", d.Refusal, again.Refusal)
				}
				if what := d.Refusal.What; what == limit.Requests || what == limit.Tokens {
					s.now = s.now.Add(d.Refusal.Wait)
					if later := s.take("k", tokens); later.Refusal == nil {
						running, passed = append(running, later.Lease), passed+1
					} else if later.Refusal.What == what {
						t.Fatalf("told to wait %s, then refused by %+v", d.Refusal.Wait, later.Refusal)
					}
				}
			}
			if n := int64(len(running)); n > rates.Concurrency || s.Held("t", "") != n {
				t.Fatalf("%d run at once of %d, the account says %d", n, rates.Concurrency, s.Held("t", ""))
			}
			elapsed := s.now.Sub(began).Seconds()
			if most := limit.Capacity(rates.RequestsPerMinute, window) + elapsed*float64(rates.RequestsPerMinute)/60; passed > most+1e-3 {
				t.Fatalf("%v requests passed in %v s, %v may", passed, elapsed, most)
			}
		}
		for _, l := range running {
			s.Settle(context.Background(), l, 0)
		}
		if s.Held("t", "") != 0 {
			t.Fatalf("%d slots are not back", s.Held("t", ""))
		}
	})
}
