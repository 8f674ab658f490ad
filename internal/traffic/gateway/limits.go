package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
	"modeldock.io/internal/traffic/limit"
)

const (
	// assumedTokens is how long an answer is taken to be whose request does
	// not bound it. Its usage corrects that.
	assumedTokens = 256
)

// spending is what a request holds of its caller's limits.
type spending struct {
	lease  limit.Lease
	prompt int64 // tokens of the request, estimated
	all    int64 // with those of the answer
	chunks int64 // events with content that were relayed
	free   bool  // no model worked for it
	done   bool
}

// admit checks the caller's limits. Most callers have none, and cost nothing.
func (g *Gateway) admit(x *exchange, key *traffic.Key, op operation, asked *wire.Request, size int) error {
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
	s := &spending{prompt: asked.InputTokens(size)}
	s.all = s.prompt + answerTokens(op, asked)
	d := g.cfg.Limiter.Take(x.r.Context(), limit.Demand{
		ID: x.rec.RequestID, Tenant: key.Tenant, Key: key.ID, Limits: limits, Tokens: s.all,
	})
	header := x.w.Header()
	setStanding(header, [3]string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, d.Requests)
	setStanding(header, [3]string{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}, d.Tokens)
	if d.Refusal != nil {
		g.metrics.limited(string(d.Refusal.What))
		return overLimit(key.Tenant, d.Refusal)
	}
	s.lease = d.Lease
	x.spend = s
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

// answerTokens estimates what the answer will have.
func answerTokens(op operation, asked *wire.Request) int64 {
	if !op.streams {
		return 0
	}
	each := asked.MaxTokens
	if each == 0 {
		each = assumedTokens
	}
	return each * min(max(asked.Choices, 1), 128)
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

// unused notes that the engine refused the request: no tokens were spent on it.
func (x *exchange) unused() {
	if x.spend != nil {
		x.spend.free = true
	}
	x.settle()
}

// used is how many tokens the request has cost, as far as can be told.
func (x *exchange) used() int64 {
	s := x.spend
	switch reported := x.worked(); {
	case s.free || x.rec.SentAt.IsZero():
		return 0
	case reported > 0:
		return reported
	case s.chunks > 0: // an engine sends about one token in an event
		return s.prompt + s.chunks
	}
	return s.all
}

// worked is the usage that the engine reported, as far as it can be true: an
// engine is other people's code, and its caller pays. No token of a prompt is
// shorter than a byte of the body, none of an answer than a byte of what was
// relayed, and no answer is longer than what was asked for.
func (x *exchange) worked() int64 {
	most := x.relayed
	if x.wish.most > 0 {
		most = min(most, x.wish.most)
	}
	return min(max(x.rec.PromptTokens, 0), x.wish.bytes) + min(max(x.rec.CompletionTokens, 0), most)
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
