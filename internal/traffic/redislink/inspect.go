package redislink

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// inspectWait bounds each question of an inspection: who looks beforehand has
// more patience than a request.
const inspectWait = 3 * time.Second

// Inspection is what a Redis says of itself.
type Inspection struct {
	Version string
	// Policy is what it does when its memory is full; "noeviction" makes writes
	// fail then, everything else drops counts or answers.
	Policy string
}

// Inspect asks a Redis once for its version, and whether it lets this user
// run scripts, which limits are counted by. It keeps nothing there.
func Inspect(ctx context.Context, opts *redis.Options) (i Inspection, err error) {
	own := *opts
	own.DialTimeout, own.ReadTimeout, own.WriteTimeout, own.MaxRetries = inspectWait, inspectWait, inspectWait, -1
	own.ContextTimeoutEnabled = true
	rdb := redis.NewClient(&own)
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return i, fmt.Errorf("connect to Redis at %s: %w", own.Addr, err)
	}
	if text, err := rdb.Info(ctx, "server", "memory").Result(); err == nil { // a user may be kept from it
		i = readInfo(text)
	}
	if err := rdb.Eval(ctx, "return redis.call('TIME')", nil).Err(); err != nil {
		return i, fmt.Errorf("run a script on Redis at %s: %w", own.Addr, err)
	}
	return i, nil
}

func readInfo(text string) (i Inspection) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), ":"); name {
		case "redis_version":
			i.Version = value
		case "maxmemory_policy":
			i.Policy = value
		}
	}
	return i
}
