package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/limit"
)

// spending is what a request holds of its caller's limits.
type spending struct {
	lease limit.Lease
	done  bool
}

// admit checks the caller's limits. Most callers have none, and cost nothing.
func (g *Gateway) admit(x *exchange, key *traffic.Key) error {
	if g.cfg.Limiter == nil || key.Tenant == "" {
		return nil
	}
	snapshot := g.cfg.Snapshot()
	if snapshot == nil {
		return nil
	}
	limits, limited := snapshot.Limits[key.Tenant]
	if !limited || limits.Together == (traffic.Rates{}) && limits.PerKey == (traffic.Rates{}) {
		return nil
	}
	d := g.cfg.Limiter.Take(x.r.Context(), limit.Demand{
		ID: x.rec.RequestID, Tenant: key.Tenant, Key: key.ID, Limits: limits, Tokens: x.estimate.tokens(),
	})
	header := x.w.Header()
	setStanding(header, [3]string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, d.Requests)
	setStanding(header, [3]string{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}, d.Tokens)
	if d.Refusal != nil {
		g.metrics.limited(string(d.Refusal.What))
		return overLimit(key.Tenant, d.Refusal)
	}
	x.spend = &spending{lease: d.Lease}
	return nil
}

// forgetLimits makes tenants whose limits were taken away begin anew if they
// get others: that is how an administrator ends a debt.
func (g *Gateway) forgetLimits(before, now *traffic.Snapshot) {
	if g.cfg.Limiter == nil {
		return
	}
	for tenant := range before.Limits {
		if _, still := now.Limits[tenant]; still {
			continue
		}
		var keys []string
		for id, key := range now.Keys {
			if key.Tenant == tenant {
				keys = append(keys, id)
			}
		}
		g.cfg.Limiter.Forget(context.Background(), tenant, keys)
	}
}

// settle gives back what the request holds, once: before the caller sees the
// end of the answer, so that the next request finds the slot free.
func (x *exchange) settle() {
	s := x.spend
	if s == nil || s.done {
		return
	}
	s.done = true
	x.g.cfg.Limiter.Settle(context.WithoutCancel(x.r.Context()), s.lease, x.used())
}

// unused notes that no model worked for the request: the engine refused it, or
// its answer was known.
func (x *exchange) unused() {
	x.free = true
	x.settle()
}

// setStanding tells what is left, in the headers that OpenAI's clients know.
func setStanding(h http.Header, names [3]string, s limit.Standing) {
	if s.Limit == 0 {
		return
	}
	values := []string{
		strconv.FormatInt(s.Limit, 10),
		strconv.FormatInt(s.Remaining, 10),
		s.Reset.Round(time.Millisecond).String(),
	}
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
}

func overLimit(tenant string, r *limit.Refusal) error {
	of := "tenant " + tenant
	if r.Key {
		of = "this API key"
	}
	f := &failure{
		status: http.StatusTooManyRequests, kind: typeRateLimit, code: "rate_limit_exceeded", outcome: traffic.RejectedLimit,
		retryAfter: max(r.Wait, time.Millisecond), dropped: "rejected-limit",
	}
	left := fmt.Sprintf("%s has %d of its %d %s left, and this request needs %d", of, r.Left, r.Limit, r.What, r.Need)
	f.message = fmt.Sprintf("%s; try again in %d s", left, retrySeconds(f.retryAfter))
	switch r.What {
	case limit.Concurrency:
		f.message = fmt.Sprintf("%s has %d %s already, which is all that it may have; wait for one to end", of, r.Limit, r.What)
	case limit.DailyTokens:
		f.code, f.noRetry = "daily_budget_exhausted", true
		f.message = fmt.Sprintf("%s; the next day begins in %s, at 00:00 UTC", left, r.Wait.Round(time.Minute))
		if r.Left > 0 {
			f.message += "; a smaller request, with a smaller max_tokens, may fit before"
		}
	}
	return f
}
