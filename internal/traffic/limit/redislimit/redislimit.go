// Package redislimit counts the traffic account's limits in a Redis that
// several gateways share. Each check is one script, by the clock of Redis, so
// that no two gateways can admit the same last request. While Redis is away
// each gateway counts by itself, against its share of every limit.
package redislimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/traffic/limit"
	"modeldock.io/internal/traffic/redislink"
)

var (
	//go:embed take.lua
	takeText string
	//go:embed settle.lua
	settleText string
	//go:embed renew.lua
	renewText string
)

// DefaultLease is how long the slots of a gateway that died stay held.
const DefaultLease = 30 * time.Second

// Config is what a limiter works with.
type Config struct {
	Link     *redislink.Link
	Gateways int // that share this Redis, for the time when it is away; at least 1
	Lease    time.Duration
	Clock    func() time.Time // of the local counts
}

// Limiter implements limit.Limiter.
type Limiter struct {
	cfg                 Config
	local               *limit.Memory
	take, settle, renew *redis.Script
	alone               atomic.Uint64 // checks that were made without Redis

	mu   sync.Mutex
	held map[string]holding // of this gateway, by id
	owed map[string]debt    // ends that Redis has to be told of, by id

	back chan struct{} // holds one token when Redis was found again
	stop chan struct{}
	done sync.WaitGroup
}

// New starts a limiter. Close it.
func New(cfg Config) *Limiter {
	if cfg.Lease <= 0 {
		cfg.Lease = DefaultLease
	}
	cfg.Gateways = max(1, cfg.Gateways)
	l := &Limiter{
		cfg: cfg, local: limit.NewMemory(cfg.Clock), held: map[string]holding{}, owed: map[string]debt{},
		back: make(chan struct{}, 1), stop: make(chan struct{}),
		take: redis.NewScript(takeText), settle: redis.NewScript(settleText), renew: redis.NewScript(renewText),
	}
	cfg.Link.OnBack(l.wake)
	l.done.Go(l.keepAlive)
	return l
}

func (l *Limiter) wake() {
	select {
	case l.back <- struct{}{}:
	default:
	}
}

// Alone is how many checks were made without Redis.
func (l *Limiter) Alone() uint64 { return l.alone.Load() }

// Close stops telling Redis that this gateway lives: what it still holds is
// given up a lease later.
func (l *Limiter) Close() {
	close(l.stop)
	l.done.Wait()
}

// Take implements limit.Limiter.
func (l *Limiter) Take(ctx context.Context, d limit.Demand) limit.Decision {
	out, err := l.ask(ctx, d)
	told := !errors.Is(err, redislink.ErrAway) // also if only the answer was lost
	if err != nil {
		// Redis away is no reason to refuse anybody; the link has logged it.
		l.alone.Add(1)
		d.Limits = limit.Divide(d.Limits, int64(l.cfg.Gateways))
		out = l.local.Take(ctx, d)
		out.Lease.Local = true
		if out.Refusal != nil && told {
			l.payLater(debt{lease: limit.Lease{ID: d.ID, Tenant: d.Tenant, Scopes: d.Scopes()}, drop: true})
		}
	}
	if out.Refusal == nil {
		l.mu.Lock()
		l.held[d.ID] = holding{out.Lease, told}
		l.mu.Unlock()
	}
	return out
}

func (l *Limiter) ask(ctx context.Context, d limit.Demand) (out limit.Decision, err error) {
	scopes := d.Scopes()
	args := make([]any, 0, 3+5*len(scopes))
	args = append(args, d.ID, l.cfg.Lease.Milliseconds(), d.Tokens)
	for _, s := range scopes {
		r := s.Rates
		args = append(args, r.RequestsPerMinute, r.TokensPerMinute, r.Concurrency, r.TokensPerDay, s.Window.Seconds())
	}
	var answer []any
	err = l.cfg.Link.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) (err error) {
		answer, err = l.take.Run(ctx, rdb, keys(d.Tenant, scopes), args...).Slice()
		return err
	})
	if err != nil {
		return out, err
	}
	return decide(d, scopes, answer)
}

// decide reads the script's answer: whether it admitted, its time, and four
// figures per account from before that.
func decide(d limit.Demand, scopes []limit.Scope, answer []any) (out limit.Decision, err error) {
	if len(answer) != 2+4*len(scopes) {
		return out, fmt.Errorf("the limit script answered %d values where %d must be", len(answer), 2+4*len(scopes))
	}
	number := func(i int) float64 {
		text, _ := answer[i].(string)
		v, wrong := strconv.ParseFloat(text, 64)
		if wrong != nil && err == nil {
			err = fmt.Errorf("the limit script answered %v where a number must be", answer[i])
		}
		return v
	}
	now := time.UnixMicro(int64(number(1)))
	figures := make([]limit.Figures, len(scopes))
	for i := range scopes {
		at := 2 + 4*i
		figures[i] = limit.Figures{Requests: number(at), Tokens: number(at + 1), DayUsed: int64(number(at + 2)), Held: int64(number(at + 3))}
	}
	if err != nil {
		return out, err
	}
	out = limit.Decide(d, scopes, figures, now)
	if admitted, _ := answer[0].(int64); (admitted == 1) != (out.Refusal == nil) {
		return out, fmt.Errorf("the limit script and this gateway disagree about %+v: bring all gateways to one version", figures)
	}
	return out, nil
}

// Settle implements limit.Limiter.
func (l *Limiter) Settle(ctx context.Context, lease limit.Lease, used int64) {
	l.mu.Lock()
	told := l.held[lease.ID].told
	delete(l.held, lease.ID)
	l.mu.Unlock()
	if lease.Local {
		l.local.Settle(ctx, lease, used)
	}
	if !told {
		return
	}
	d := debt{lease: lease, used: used, drop: lease.Local}
	if err := l.pay(ctx, d); err != nil {
		l.payLater(d) // until then its reservation stays spent and its slot held
	}
}

// Forget implements limit.Limiter. Every gateway that hears of it does it;
// while Redis is away what it has stays.
func (l *Limiter) Forget(ctx context.Context, tenant string, ids []string) {
	l.local.Forget(ctx, tenant, ids)
	scopes := []limit.Scope{{}}
	for _, id := range ids {
		scopes = append(scopes, limit.Scope{Key: id})
	}
	var buckets []string
	for i, key := range keys(tenant, scopes) {
		if i%2 == 0 { // the others are slots
			buckets = append(buckets, key)
		}
	}
	_ = l.cfg.Link.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error { // the link logs
		return rdb.Del(ctx, buckets...).Err()
	})
}

// keys of the accounts; those of one tenant lie in one slot of a Redis cluster.
func keys(tenant string, scopes []limit.Scope) []string {
	out := make([]string, 0, 2*len(scopes))
	for _, s := range scopes {
		name := "modeldock:limit:{" + tenant + "}"
		if s.Key != "" {
			name += ":" + s.Key
		}
		out = append(out, name, name+":slots")
	}
	return out
}
