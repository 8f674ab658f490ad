package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/cache/rediscache"
	"modeldock.io/internal/traffic/limit"
	"modeldock.io/internal/traffic/limit/redislimit"
	"modeldock.io/internal/traffic/redislink"
	"modeldock.io/internal/traffic/waitroom"
)

// CountOptions say where a gateway counts its callers' use and keeps answers.
type CountOptions struct {
	RedisURL string // empty: in this process. A secret
	Gateways int    // that share this Redis
	CacheMiB int    // of answers kept in this process
}

// DefaultCountOptions are the defaults of the flags.
func DefaultCountOptions() CountOptions {
	return CountOptions{Gateways: 1, CacheMiB: cache.DefaultBytes >> 20}
}

// RedisVariable names the environment variable with the URL of Redis.
const RedisVariable = "MODELDOCK_REDIS_URL"

// RedisAddress checks the address that a flag gives, where everybody on the
// machine can read it.
func RedisAddress(address string) (string, error) {
	if strings.Contains(address, "@") {
		return "", errors.New("--redis must not carry a password, which every user of this machine could read: put the whole URL into " + RedisVariable + ", or into a file named by --redis-url-file")
	}
	return address, nil
}

// Validate returns every error at once.
func (o CountOptions) Validate() error {
	var errs []error
	if o.RedisURL != "" {
		if _, err := redislink.Parse(o.RedisURL); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Gateways < 1 {
		errs = append(errs, fmt.Errorf("--gateways must be at least 1; got %d", o.Gateways))
	}
	if o.CacheMiB < 1 || o.CacheMiB > 1<<20 {
		errs = append(errs, fmt.Errorf("--cache-mib must be from 1 to %d; got %d", 1<<20, o.CacheMiB))
	}
	return errors.Join(errs...)
}

// counts are a gateway's limiter and result cache.
type counts struct {
	limiter limit.Limiter
	results cache.Store
	close   func() error
}

func openCounts(o CountOptions, clock func() time.Time, log *slog.Logger, registry prometheus.Registerer) (counts, error) {
	if o.RedisURL == "" {
		return counts{limit.NewMemory(clock), cache.NewMemory(clock, int64(o.CacheMiB)<<20), func() error { return nil }}, nil
	}
	opts, err := redislink.Parse(o.RedisURL)
	if err != nil {
		return counts{}, err
	}
	link := redislink.Open(opts, log)
	limiter := redislimit.New(redislimit.Config{Link: link, Gateways: o.Gateways, Clock: clock})
	end := func() error {
		limiter.Close()
		return link.Close()
	}
	for _, c := range []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "modeldock_gateway_limit_alone_total",
			Help: "Checks of limits that this gateway made by itself, against its share, because Redis was away.",
		}, func() float64 { return float64(limiter.Alone()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "modeldock_gateway_redis_up",
			Help: "1 while Redis answers, else 0.",
		}, func() float64 {
			if link.Up() {
				return 1
			}
			return 0
		}),
	} {
		if err := registry.Register(c); err != nil {
			return counts{}, errors.Join(fmt.Errorf("register the metrics of Redis: %w", err), end())
		}
	}
	return counts{limiter, rediscache.New(link, log), end}, nil
}

// highestClass is the highest priority class that a tenant's callers may wait
// in; without a limit it is waitroom.Default, which a header may lower.
func highestClass(s *traffic.Snapshot, tenant string) waitroom.Class {
	if s == nil {
		return waitroom.Default
	}
	class, err := waitroom.ParseClass(s.Limits[tenant].MaxClass)
	if err != nil {
		return waitroom.Default // no limit, or one of a later version
	}
	return class
}
