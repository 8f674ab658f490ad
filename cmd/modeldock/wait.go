package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modeldock.io/internal/api/openapi"
)

const pollEvery = 200 * time.Millisecond

// fatalReasons end a wait at once: waiting longer does not help by itself.
var fatalReasons = map[string]bool{"ModelLoadFailed": true, "CrashLooping": true, "ImagePullFailed": true, "Unplaceable": true, "NameTaken": true, "ExceedsQuota": true, "ExceedsPool": true}

// blockedReasons are exit 4, not 3, when the time is up.
var blockedReasons = map[string]bool{"QuotaBlocked": true, "PoolBlocked": true, "NoFragmentFits": true, "ReleaseBlocked": true, "NotOwned": true, "ReplicaFailure": true, "ProgressDeadlineExceeded": true, "PortTaken": true}

func (c *cli) fetch(ctx context.Context, conn *connection, id string) (openapi.Request, error) {
	doc, err := document200(conn.api.GetRequestWithResponse(ctx, id, &openapi.GetRequestParams{Tenant: conn.whose()}))
	if err != nil {
		return openapi.Request{}, err
	}
	return *doc, nil
}

// poll reads the request until done says so, showing each new state on
// standard error.
func (c *cli) poll(ctx context.Context, conn *connection, id string, timeout time.Duration, done func(openapi.Request) (bool, error)) error {
	deadline := time.Now().Add(timeout)
	var last string
	say := func(line string) {
		if line != last {
			_, _ = fmt.Fprintln(c.err, line)
			last = line
		}
	}
	for {
		r, err := c.fetch(ctx, conn, id)
		switch {
		case err == nil:
			say(progress(r))
			if ok, err := done(r); ok || err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return stillWaiting(r, timeout)
			}
		case ctx.Err() != nil || !passing(err) || time.Now().After(deadline):
			return err
		default: // the server restarts, for example: the wait goes on
			say(plain(err.Error()) + "; asking again")
		}
		select {
		case <-ctx.Done():
			return failed(context.Cause(ctx))
		case <-time.After(min(pollEvery, time.Until(deadline)+time.Millisecond)):
		}
	}
}

func stillWaiting(r openapi.Request, timeout time.Duration) error {
	code := exitPending
	if blockedReasons[text(r.Reason)] {
		code = exitBroken
	}
	return &exitError{code, fmt.Errorf("still %s after %s; see `modeldock explain %s`", progress(r), timeout, r.Id)}
}

// passing reports whether a failure may be over at the next try: no answer at
// all, or the server's own trouble.
func passing(err error) bool {
	var e *exitError
	return errors.As(err, &e) && (e.code == exitFailed || e.code == exitPending)
}

func progress(r openapi.Request) string {
	line := r.Id + " " + string(r.State)
	if r.Reason != nil {
		line += " " + *r.Reason
	}
	if r.Message != nil && *r.Message != "" {
		line += ": " + *r.Message
	}
	return plain(line)
}

func (c *cli) waitReady(ctx context.Context, conn *connection, id string, timeout time.Duration) error {
	return c.poll(ctx, conn, id, timeout, func(r openapi.Request) (bool, error) {
		switch {
		case r.State == openapi.StateReserved && r.ReadyReplicas > 0 && r.ReleaseRequestedAt == nil:
			return true, c.printRequest(r)
		case r.State == openapi.StateReleased || r.State == openapi.StateExpired:
			return true, &exitError{exitBroken, fmt.Errorf("request %s is %s; submit again under a new id", id, r.State)}
		case fatalReasons[text(r.Reason)]:
			return true, &exitError{exitBroken, fmt.Errorf("request %s: %s: %s", id, text(r.Reason), plain(text(r.Message)))}
		}
		return false, nil
	})
}

func (c *cli) waitReleased(ctx context.Context, conn *connection, id string, timeout time.Duration) error {
	return c.poll(ctx, conn, id, timeout, func(r openapi.Request) (bool, error) {
		if r.State == openapi.StateReleased || r.State == openapi.StateExpired {
			return true, c.printRequest(r)
		}
		return false, nil
	})
}
