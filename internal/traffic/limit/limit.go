// Package limit is traffic's answer to one caller who takes it all: it counts
// requests, tokens and concurrent requests of a tenant and of each of its keys.
// The rules here are pure; Memory applies them to counts of this process,
// redislimit to counts that several gateways share.
//
// Minute figures are token buckets: at most a window's share at once, refilled
// steadily. (J. Turner, New Directions in Communications, 1986.) Tokens are
// reserved by an estimate when a request starts and settled by its usage at
// the end, which may leave a debt that the refill pays; it is never more than
// what a full bucket holds, so that no figure that an engine tells blocks a
// caller for longer than the time of two buckets.
package limit

import (
	"context"
	"time"

	"modeldock.io/internal/traffic"
)

// Limiter counts. It is safe for concurrent use; Take is the one atomic check
// of a request, and neither method waits for a place.
type Limiter interface {
	// Take admits a request under all of its limits or refuses it under any
	// and changes nothing. What was admitted is settled exactly once.
	Take(ctx context.Context, d Demand) Decision
	// Settle gives the slot back and puts the tokens that were used in the
	// place of the ones that were reserved.
	Settle(ctx context.Context, lease Lease, used int64)
	// Forget makes a tenant and those of its keys begin anew, with full
	// buckets and nothing used today. What runs keeps its slots.
	Forget(ctx context.Context, tenant string, keys []string)
}

// Demand is one request.
type Demand struct {
	ID     string // unique
	Tenant string
	Key    string // id
	Limits traffic.Limits
	Tokens int64 // that it will use, as far as can be said
}

// Lease is what an admitted request holds.
type Lease struct {
	ID     string
	Tenant string
	Scopes []Scope
	Local  bool // counted by this process alone, because the shared counts were away
}

// Scope is one account that a request counts in: its tenant's or its key's.
type Scope struct {
	Key      string // id; empty: the tenant as a whole
	Rates    traffic.Rates
	Window   time.Duration
	Reserved int64 // tokens
	Day      int64 // that they were reserved on
}

// Decision is the answer to a demand.
type Decision struct {
	Lease    Lease
	Refusal  *Refusal // nil: admitted
	Requests Standing // of the account that has least left
	Tokens   Standing
}

// Standing is what the headers tell: zero where nothing is limited.
type Standing struct {
	Limit     int64
	Remaining int64
	Reset     time.Duration // until all of it is there again
}

// What refuses a request, in the words of its caller.
const (
	Requests    What = "requests per minute"
	Tokens      What = "tokens per minute" //nolint:gosec // no secret
	Concurrency What = "concurrent requests"
	DailyTokens What = "tokens per day" //nolint:gosec // no secret
)

// What is a kind of limit.
type What string

// Refusal says which limit refused, whose it is, and when to come back.
type Refusal struct {
	What  What
	Key   bool // of the key, not of the tenant
	Limit int64
	Left  int64 // of what may come at once, or of the day
	Need  int64 // what the request takes of it
	Wait  time.Duration
}

// Scopes are the accounts in which a demand counts; none if nothing limits it.
func (d Demand) Scopes() []Scope {
	window := d.Limits.Window
	if window <= 0 {
		window = time.Minute
	}
	scopes := make([]Scope, 0, 2)
	if d.Limits.Together != (traffic.Rates{}) {
		scopes = append(scopes, Scope{Rates: d.Limits.Together, Window: window})
	}
	if d.Limits.PerKey != (traffic.Rates{}) {
		scopes = append(scopes, Scope{Key: d.Key, Rates: d.Limits.PerKey, Window: window})
	}
	return scopes
}

// Divide returns the share of one of n gateways, at least one of each.
func Divide(l traffic.Limits, n int64) traffic.Limits {
	l.Together, l.PerKey = share(l.Together, n), share(l.PerKey, n)
	return l
}

func share(r traffic.Rates, n int64) traffic.Rates {
	up := func(v int64) int64 { return (v + n - 1) / n }
	return traffic.Rates{RequestsPerMinute: up(r.RequestsPerMinute), TokensPerMinute: up(r.TokensPerMinute), Concurrency: up(r.Concurrency), TokensPerDay: up(r.TokensPerDay)}
}
