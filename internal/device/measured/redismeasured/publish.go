// Package redismeasured carries what agents measure through a Redis that they
// share with schedulers and controllers (account 2). Ages are told by the
// clock of Redis, so that the clocks of nodes need not agree.
package redismeasured

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed publish.lua
var publishText string

// key is a hash: node → sample.
const key = "modeldock:measured"

// answerWait is how long Redis may take.
const answerWait = 500 * time.Millisecond

// Publisher is one agent's. Close it.
type Publisher struct {
	rdb    *redis.Client
	node   string
	script *redis.Script
	clock  func() time.Time
}

// NewPublisher does not wait for Redis.
func NewPublisher(opts *redis.Options, node string, clock func() time.Time) *Publisher {
	return &Publisher{rdb: client(opts, 2), node: node, script: redis.NewScript(publishText), clock: clock}
}

// client asks once and waits briefly: the next question comes in a second.
func client(opts *redis.Options, connections int) *redis.Client {
	own := *opts
	own.DialTimeout, own.ReadTimeout, own.WriteTimeout, own.PoolTimeout = answerWait, answerWait, answerWait, answerWait
	own.MaxRetries, own.PoolSize, own.ContextTimeoutEnabled = -1, connections, true
	return redis.NewClient(&own)
}

// Publish tells what was in use at that time, in MiB by the cards' uuids.
func (p *Publisher) Publish(ctx context.Context, at time.Time, usedMiB map[string]int64) error {
	text, err := json.Marshal(usedMiB)
	if err != nil {
		return fmt.Errorf("describe the measured memory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	age := max(0, p.clock().Sub(at))
	if err := p.script.Run(ctx, p.rdb, []string{key}, p.node, age.Microseconds(), text).Err(); err != nil {
		return fmt.Errorf("publish the measured memory of %s: %w", p.node, err)
	}
	return nil
}

// Close ends the connections.
func (p *Publisher) Close() error {
	if err := p.rdb.Close(); err != nil {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}
