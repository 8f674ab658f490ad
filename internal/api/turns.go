package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
)

// Bounds of the calls that one tenant, or one key of an administrator or
// viewer, has under way. What is beyond waits for its turn a while, as many
// programs ask in bursts, and is then told to come back.
const (
	maxCalls   = 8
	maxWaiting = 256
	turnWait   = 10 * time.Second
)

// turns gives each caller so many calls at once.
type turns struct {
	wait    time.Duration
	mu      sync.Mutex
	callers map[string]*caller
}

type caller struct {
	places chan struct{} // held by calls under way
	calls  int           // under way or waiting
}

func newTurns() *turns { return &turns{wait: turnWait, callers: map[string]*caller{}} }

// take returns how the call ends, or a problem.
func (t *turns) take(ctx context.Context, name string) (end func(), err error) {
	c, err := t.arrive(name)
	if err != nil {
		return nil, err
	}
	select {
	case c.places <- struct{}{}:
		return func() { <-c.places; t.leave(name, c) }, nil
	default:
	}
	patience := time.NewTimer(t.wait)
	defer patience.Stop()
	select {
	case c.places <- struct{}{}:
		return func() { <-c.places; t.leave(name, c) }, nil
	case <-patience.C:
		err = tooManyCalls("%d calls of this caller are under way, and none ended within %s; send fewer at once, and this one again", maxCalls, t.wait)
	case <-ctx.Done():
		err = tooManyCalls("the caller left before its turn")
	}
	t.leave(name, c)
	return nil, err
}

func tooManyCalls(format string, args ...any) *problem {
	return &problem{http.StatusTooManyRequests, codeTooManyCalls, fmt.Sprintf(format, args...), ""}
}

func (t *turns) arrive(name string) (*caller, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.callers[name]
	if c == nil {
		c = &caller{places: make(chan struct{}, maxCalls)}
		t.callers[name] = c
	}
	if c.calls >= maxCalls+maxWaiting {
		return nil, tooManyCalls("%d calls of this caller are under way and %d wait; send fewer at once, and this one again", maxCalls, maxWaiting)
	}
	c.calls++
	return c, nil
}

func (t *turns) leave(name string, c *caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.calls--; c.calls == 0 {
		delete(t.callers, name)
	}
}

// callerOf names whom a call counts for: all keys of a tenant together.
func callerOf(p Principal) string {
	if p.Tenant != "" {
		return "tenant " + p.Tenant
	}
	return "key " + p.KeyID
}

// endless tells the calls that last as long as their caller wants: they have
// bounds of their own.
func endless(c *gin.Context) bool {
	switch c.FullPath() {
	case "/events":
		return true
	case "/requests/:id/logs":
		return follows(c)
	}
	return false
}

// fromOutside marks a call, so that the ledger answers it beside its own loops.
func fromOutside(c *gin.Context) {
	c.Request = c.Request.WithContext(budget.FromOutside(c.Request.Context()))
}

const turnKey = "turn"

// takeTurn lets the call of a known caller begin, or answers 429.
func (s *Server) takeTurn(c *gin.Context) {
	p := who(c)
	if p.KeyID == "" || endless(c) {
		return
	}
	end, err := s.turns.take(c.Request.Context(), callerOf(p))
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Set(turnKey, end)
}

// endTurn gives the call's place to the next one, however the call ended.
func endTurn(c *gin.Context) {
	defer func() {
		if end, ok := c.Get(turnKey); ok {
			end.(func())()
		}
	}()
	c.Next()
}
