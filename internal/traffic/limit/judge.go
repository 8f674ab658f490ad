package limit

import (
	"math"
	"time"
)

// Figures are one account's counts at a moment.
type Figures struct {
	Requests float64 // left in the bucket
	Tokens   float64 // left in the bucket; below zero is a debt
	DayUsed  int64   // tokens of today
	Held     int64   // concurrent requests
}

// day is the UTC calendar's, counted from 1970.
const day = 24 * time.Hour

// DayOf numbers the UTC day of a moment.
func DayOf(now time.Time) int64 { return now.Unix() / int64(day/time.Second) }

// untilTomorrow is how long today's budget still has to do.
func untilTomorrow(now time.Time) time.Duration {
	return time.Unix((DayOf(now)+1)*int64(day/time.Second), 0).Sub(now)
}

// Capacity is what a bucket of so much per minute holds at most.
func Capacity(perMinute int64, window time.Duration) float64 {
	return math.Max(1, float64(perMinute)*window.Seconds()/60)
}

// Need is what a request takes of a bucket. One that is larger than the whole
// bucket has to wait for a full one, not for ever.
func Need(tokens int64, capacity float64) float64 { return math.Min(float64(tokens), capacity) }

// Settled is a bucket's level after a request: what it reserved comes back and
// what it used goes, down to a debt of one bucket.
func Settled(level float64, reserved, used int64, capacity float64) float64 {
	return math.Max(-capacity, math.Min(capacity, level+Need(reserved, capacity)-float64(used)))
}

// Slack forgives what adding fractions loses.
const Slack = 1e-6

// refill is how long a bucket takes from level to want.
func refill(level, want float64, perMinute int64) time.Duration {
	if level >= want {
		return 0
	}
	us := math.Ceil((want - level) / float64(perMinute) * 60e6)
	return time.Duration(math.Min(us, float64(365*day/time.Microsecond))) * time.Microsecond
}

// judge says what refuses a request of so many tokens; nil admits it. Of
// several it is the one that takes longest: coming back earlier is in vain.
func (s Scope) judge(f Figures, tokens int64, now time.Time) *Refusal {
	var worst *Refusal
	refuse := func(what What, limit int64, left, need float64, wait time.Duration) {
		if worst == nil || wait > worst.Wait {
			worst = &Refusal{
				What: what, Key: s.Key != "", Limit: limit, Wait: wait,
				Left: int64(math.Max(0, math.Floor(left+Slack))), Need: int64(math.Ceil(need)),
			}
		}
	}
	r := s.Rates
	if r.RequestsPerMinute > 0 && f.Requests < 1-Slack {
		refuse(Requests, r.RequestsPerMinute, f.Requests, 1, refill(f.Requests, 1, r.RequestsPerMinute))
	}
	if r.TokensPerMinute > 0 {
		if need := Need(tokens, Capacity(r.TokensPerMinute, s.Window)); f.Tokens < need-Slack {
			refuse(Tokens, r.TokensPerMinute, f.Tokens, need, refill(f.Tokens, need, r.TokensPerMinute))
		}
	}
	if r.Concurrency > 0 && f.Held >= r.Concurrency {
		refuse(Concurrency, r.Concurrency, 0, 1, time.Second) // nobody knows when one ends
	}
	if need := min(tokens, r.TokensPerDay); r.TokensPerDay > 0 && f.DayUsed+need > r.TokensPerDay {
		refuse(DailyTokens, r.TokensPerDay, float64(r.TokensPerDay-f.DayUsed), float64(need), untilTomorrow(now))
	}
	return worst
}

// Decide judges a demand in all of its scopes; figures are theirs, before it.
// The scopes of an admitted one say what it reserved.
func Decide(d Demand, scopes []Scope, figures []Figures, now time.Time) Decision {
	out := Decision{Lease: Lease{ID: d.ID, Tenant: d.Tenant, Scopes: scopes}}
	for i, s := range scopes {
		if r := s.judge(figures[i], d.Tokens, now); r != nil && (out.Refusal == nil || r.Wait > out.Refusal.Wait) {
			out.Refusal = r
		}
	}
	for i := range scopes {
		s, f := &scopes[i], figures[i]
		if out.Refusal == nil {
			s.Reserved, s.Day = d.Tokens, DayOf(now)
			f.Requests--
			f.Tokens -= Need(d.Tokens, Capacity(s.Rates.TokensPerMinute, s.Window))
			f.DayUsed += min(d.Tokens, s.Rates.TokensPerDay)
		}
		out.stand(*s, f, now)
	}
	return out
}

// stand keeps the standing of the account that has least left.
func (d *Decision) stand(s Scope, f Figures, now time.Time) {
	if n := s.Rates.RequestsPerMinute; n > 0 {
		d.Requests = tighter(d.Requests, bucketStanding(n, f.Requests, s.Window))
	}
	if n := s.Rates.TokensPerMinute; n > 0 {
		d.Tokens = tighter(d.Tokens, bucketStanding(n, f.Tokens, s.Window))
	}
	if n := s.Rates.TokensPerDay; n > 0 {
		d.Tokens = tighter(d.Tokens, Standing{Limit: n, Remaining: max(0, n-f.DayUsed), Reset: untilTomorrow(now)})
	}
}

func bucketStanding(perMinute int64, level float64, window time.Duration) Standing {
	return Standing{
		Limit:     perMinute,
		Remaining: int64(math.Max(0, math.Floor(level+Slack))),
		Reset:     refill(level, Capacity(perMinute, window), perMinute),
	}
}

func tighter(a, b Standing) Standing {
	if a.Limit == 0 || b.Remaining < a.Remaining {
		return b
	}
	return a
}
