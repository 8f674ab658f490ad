package preflight

import (
	"context"
	"fmt"

	"modeldock.io/internal/traffic/redislink"
)

// oldestRedis has scripts that may ask for the time and then write.
var oldestRedis = [2]int{6, 0}

func sharedCounts(ctx context.Context, url string) []Finding {
	l := &look{part: "redis"}
	const next = "start it, correct --redis or --redis-url-file, and let its user run scripts. Without Redis each gateway counts for itself"
	opts, err := redislink.Parse(url)
	if err != nil {
		l.add(checkReach, Broken, err.Error(), next)
		return l.all
	}
	i, err := redislink.Inspect(ctx, opts)
	if err != nil {
		l.add(checkReach, Broken, err.Error(), next)
		return l.all
	}
	l.add(checkReach, OK, opts.Addr+" answers and runs scripts", "")
	have, ok := minor(i.Version)
	switch {
	case !ok:
		l.add(checkVersion, Warning, "Redis does not tell its version", fmt.Sprintf("make sure that it is %d.%d or newer", oldestRedis[0], oldestRedis[1]))
	case less(have, oldestRedis):
		l.add(checkVersion, Broken, fmt.Sprintf("Redis %s is too old for the limits' scripts; %d.%d or newer is needed", i.Version, oldestRedis[0], oldestRedis[1]), "upgrade Redis first")
	default:
		l.add(checkVersion, OK, "Redis "+i.Version, "")
	}
	return l.all
}
