package limit

import (
	"context"
	"math"
	"sync"
	"time"
)

// Memory counts in this process.
type Memory struct {
	clock func() time.Time

	mu       sync.Mutex
	accounts map[accountKey]*account
	sweepAt  int // accounts at which those at rest are dropped
}

type accountKey struct{ tenant, key string }

// account is what one tenant or key has used. A bucket that was never drawn
// from is full.
type account struct {
	requests, tokens bucket
	day, dayUsed     int64
	held             int64
	rested           time.Time // when the buckets are full again
}

type bucket struct {
	level float64
	at    time.Time // zero: never drawn from
}

// levelAt returns the level at now.
func (b bucket) levelAt(now time.Time, perMinute int64, window time.Duration) float64 {
	capacity := Capacity(perMinute, window)
	if b.at.IsZero() {
		return capacity
	}
	elapsed := math.Max(0, now.Sub(b.at).Seconds())
	return math.Min(capacity, math.Max(-capacity, b.level)+elapsed*float64(perMinute)/60)
}

// set is the bucket after a change. Where nothing limits there is none: a
// limit that comes later begins with a full one.
func set(level float64, perMinute int64, now time.Time) bucket {
	if perMinute == 0 {
		return bucket{}
	}
	return bucket{level, now}
}

const firstSweep = 1024

// NewMemory returns counts at zero.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{clock: clock, accounts: map[accountKey]*account{}, sweepAt: firstSweep}
}

// Take implements Limiter.
func (m *Memory) Take(_ context.Context, d Demand) Decision {
	scopes := d.Scopes()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	figures := make([]Figures, len(scopes))
	for i, s := range scopes {
		figures[i] = m.figures(m.accounts[accountKey{d.Tenant, s.Key}], s, now)
	}
	out := Decide(d, scopes, figures, now)
	if out.Refusal != nil {
		return out
	}
	m.sweep(now)
	for i, s := range out.Lease.Scopes {
		k := accountKey{d.Tenant, s.Key}
		a := m.accounts[k]
		if a == nil {
			a = &account{}
			m.accounts[k] = a
		}
		a.requests = set(figures[i].Requests-1, s.Rates.RequestsPerMinute, now)
		a.tokens = set(figures[i].Tokens-Need(s.Reserved, Capacity(s.Rates.TokensPerMinute, s.Window)), s.Rates.TokensPerMinute, now)
		a.day, a.dayUsed = s.Day, figures[i].DayUsed+min(s.Reserved, s.Rates.TokensPerDay)
		a.held++
		a.rest(s, now)
	}
	return out
}

func (m *Memory) figures(a *account, s Scope, now time.Time) Figures {
	if a == nil {
		a = &account{}
	}
	f := Figures{
		Requests: a.requests.levelAt(now, s.Rates.RequestsPerMinute, s.Window),
		Tokens:   a.tokens.levelAt(now, s.Rates.TokensPerMinute, s.Window),
		Held:     a.held,
	}
	if a.day == DayOf(now) {
		f.DayUsed = a.dayUsed
	}
	return f
}

// Settle implements Limiter.
func (m *Memory) Settle(_ context.Context, lease Lease, used int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, s := range lease.Scopes {
		a := m.accounts[accountKey{lease.Tenant, s.Key}]
		if a == nil {
			continue
		}
		a.held--
		capacity := Capacity(s.Rates.TokensPerMinute, s.Window)
		level := a.tokens.levelAt(now, s.Rates.TokensPerMinute, s.Window)
		a.tokens = set(Settled(level, s.Reserved, used, capacity), s.Rates.TokensPerMinute, now)
		if a.day == s.Day {
			a.dayUsed = max(0, a.dayUsed+used-min(s.Reserved, s.Rates.TokensPerDay))
		}
		a.rest(s, now)
	}
}

// Forget implements Limiter.
func (m *Memory) Forget(_ context.Context, tenant string, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range append([]string{""}, keys...) {
		if a := m.accounts[accountKey{tenant, key}]; a != nil {
			*a = account{held: a.held}
		}
	}
}

// rest notes when the account says no more than a new one would.
func (a *account) rest(s Scope, now time.Time) {
	a.rested = now
	if r := s.Rates.RequestsPerMinute; r > 0 {
		a.rested = now.Add(refill(a.requests.level, Capacity(r, s.Window), r))
	}
	if r := s.Rates.TokensPerMinute; r > 0 {
		a.rested = later(a.rested, now.Add(refill(a.tokens.level, Capacity(r, s.Window), r)))
	}
	if s.Rates.TokensPerDay > 0 {
		a.rested = later(a.rested, now.Add(untilTomorrow(now)))
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// sweep drops accounts at rest, when many have gathered.
func (m *Memory) sweep(now time.Time) {
	if len(m.accounts) < m.sweepAt {
		return
	}
	for k, a := range m.accounts {
		if a.held == 0 && a.rested.Before(now) {
			delete(m.accounts, k)
		}
	}
	m.sweepAt = max(firstSweep, 2*len(m.accounts))
}

// Held is how many requests an account has at the moment; key empty: the
// tenant as a whole.
func (m *Memory) Held(tenant, key string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.accounts[accountKey{tenant, key}]; a != nil {
		return a.held
	}
	return 0
}
