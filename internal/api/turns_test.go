package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// A tenant that has as many calls under way as it may is told to come back;
// others are not kept from asking, and its own ask again afterwards.
func TestATenantHasSoManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	begun := make(chan struct{}, maxCalls)
	b := setup(t)
	b.target.logs = func(context.Context, string, int, bool) (io.ReadCloser, error) {
		begun <- struct{}{}
		<-stuck
		return http.NoBody, nil
	}
	b.server.turns.wait = time.Millisecond
	b.submit(b.a, "one")
	var calls sync.WaitGroup
	for range maxCalls {
		calls.Go(func() { b.ask(b.a, "GET", "/requests/one/logs?follow=false", "").is(200) })
		<-begun
	}
	second := b.key(budget.RoleTenant, "team-a", 0) // another key of it is no way around
	for _, key := range []string{b.a, second} {
		a := b.ask(key, "GET", "/requests", "")
		a.fails(429, "too_many_requests")
		if a.header.Get("Retry-After") == "" {
			t.Error("nobody tells when to come back")
		}
	}
	b.ask(b.b, "GET", "/requests", "").is(200)
	b.ask(b.admin, "GET", "/requests", "").is(200)
	b.open(b.a, "?topics=request") // a stream lasts, and has a bound of its own
	close(stuck)
	calls.Wait()
	b.server.turns.wait = 30 * time.Second
	for range 4 * maxCalls { // a burst waits for its turn
		calls.Go(func() { b.ask(b.a, "GET", "/requests", "").is(200) })
	}
	calls.Wait()
	b.server.turns.mu.Lock()
	defer b.server.turns.mu.Unlock()
	if len(b.server.turns.callers) != 0 {
		t.Errorf("%d callers are still remembered", len(b.server.turns.callers))
	}
}

// Whatever a truth value is written like, a log is followed exactly where the
// call has no place among the caller's others.
func TestFollowIsReadOneWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var followed atomic.Bool
	b.target.logs = func(_ context.Context, _ string, _ int, follow bool) (io.ReadCloser, error) {
		followed.Store(follow)
		return io.NopCloser(strings.NewReader("one\n")), nil
	}
	b.submit(b.a, "one")
	end := make([]func(), 0, maxCalls)
	for range maxCalls { // all of the tenant's places
		leave, err := b.server.turns.take(t.Context(), "tenant team-a")
		b.ok(err)
		end = append(end, leave)
	}
	b.server.turns.wait = time.Millisecond
	defer func() {
		for _, leave := range end {
			leave()
		}
	}()
	for _, yes := range []string{"1", "t", "T", "true", "TRUE", "True"} {
		followed.Store(false)
		b.ask(b.a, "GET", "/requests/one/logs?follow="+yes, "").is(200)
		if !followed.Load() {
			t.Errorf("follow=%s does not follow", yes)
		}
	}
	for _, no := range []string{"0", "f", "F", "false", "FALSE", "False"} {
		b.ask(b.a, "GET", "/requests/one/logs?follow="+no, "").fails(429, "too_many_requests")
	}
	b.ask(b.a, "GET", "/requests/one/logs", "").fails(429, "too_many_requests")
	for _, bad := range []string{"yes", "2", "tRue", "%20true", "true&follow=false", "false&follow=true"} {
		if status := b.ask(b.a, "GET", "/requests/one/logs?follow="+bad, "").status; status != 400 && status != 429 {
			t.Errorf("follow=%s answers %d", bad, status)
		}
	}
}

func TestFollowedLogsAreBoundedPerKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.target.logs = func(ctx context.Context, _ string, _ int, _ bool) (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, "one\n")
			<-ctx.Done()
			_ = out.Close()
		}()
		return in, nil
	}
	b.submit(b.a, "one")
	b.submit(b.b, "one")
	follow := func(key string) (leave func()) {
		t.Helper()
		r := b.request("GET", "/requests/one/logs?follow=true", "")
		ctx, leave := context.WithCancel(t.Context())
		r = r.WithContext(ctx)
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		b.ok(err)
		t.Cleanup(func() { leave(); _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("following answered %d", resp.StatusCode)
		}
		return leave
	}
	var leave func()
	for range maxPerKey {
		leave = follow(b.a)
	}
	b.ask(b.a, "GET", "/requests/one/logs?follow=true", "").fails(429, "too_many_streams")
	follow(b.b)
	leave()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b.server.following.mu.Lock()
		n := len(b.server.following.callers)
		all := b.server.following.taken
		b.server.following.mu.Unlock()
		if n == 2 && all == maxPerKey {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d are followed after one left, want %d", all, maxPerKey)
		}
	}
	follow(b.a)
}

// A reason is derived of so many rows per call; the list goes on with next.
func TestAReasonIsLookedForInSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.ledger.SetQuota(t.Context(), "team-a", 0)
	b.ok(err)
	rows := maxScanned + 10
	var writes sync.WaitGroup
	for i := range rows {
		writes.Go(func() {
			_, err := b.ledger.Submit(t.Context(), submissionNamed(fmt.Sprintf("r%05d", i)))
			if err != nil {
				t.Error(err)
			}
		})
	}
	writes.Wait()
	after, found, calls := "", 0, 0
	for {
		page := read[openapi.RequestList](b.ask(b.a, "GET", "/requests?reason=Nope&after="+after, ""), 200)
		calls++
		found += len(page.Items)
		if page.Next == "" {
			break
		}
		after = page.Next
	}
	if found != 0 || calls != 2 {
		t.Errorf("%d calls found %d of %d rows, want 2 calls and none", calls, found, rows)
	}
	after = ""
	for {
		page := read[openapi.RequestList](b.ask(b.a, "GET", "/requests?reason=ExceedsQuota&limit=1000&after="+after, ""), 200)
		found += len(page.Items)
		if after = page.Next; after == "" {
			break
		}
	}
	if found != rows {
		t.Errorf("%d rows have the reason, want %d", found, rows)
	}
}

func submissionNamed(id string) budget.Submission {
	return budget.Submission{Ref: budget.Ref{Tenant: "team-a", ID: id}, Cost: 1, Pool: "default", TTL: time.Hour, Model: modelspec.Default(id)}
}
