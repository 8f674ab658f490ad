package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

// feed is an open event stream.
type feed struct {
	*testing.T
	lines chan string // closed at the stream's end
}

func (b *bundle) open(key, query string) feed {
	b.Helper()
	r := b.request("GET", "/events"+query, "")
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	b.ok(err)
	b.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		b.Fatalf("events answered %d with %v", resp.StatusCode, resp.Header)
	}
	f := feed{b.T, make(chan string, 4*subscriberQueue)}
	go func() {
		defer close(f.lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if s.Text() != "" {
				f.lines <- s.Text()
			}
		}
	}()
	f.sees("event: reset", "data: {}")
	return f
}

func (f feed) next() (string, bool) {
	f.Helper()
	select {
	case line, open := <-f.lines:
		return line, open
	case <-time.After(10 * time.Second):
		f.Fatal("nothing came")
		return "", false
	}
}

func (f feed) sees(lines ...string) {
	f.Helper()
	for _, want := range lines {
		if got, _ := f.next(); got != want {
			f.Fatalf("got %q, want %q", got, want)
		}
	}
}

// last is the last line of a stream that ends.
func (f feed) last() (line string) {
	f.Helper()
	for {
		next, open := f.next()
		if !open {
			return line
		}
		line = next
	}
}

func (f feed) ends() {
	f.Helper()
	for {
		if _, open := f.next(); !open {
			return
		}
	}
}

func TestEventsAreForTheirTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, viewer := b.open(b.a, ""), b.open(b.viewer, "")
	b.hub.Publish(Event{Topic: "request", Tenant: "team-b", ID: "secret", Revision: 1})
	b.hub.Publish(Event{Topic: "request", Tenant: "team-a", ID: "one", Revision: 2})
	b.hub.Publish(Event{Topic: "node"})
	a.sees("event: request", `data: {"tenant":"team-a","id":"one","revision":2}`, "event: node", `data: {"tenant":"","id":"","revision":0}`)
	viewer.sees("event: request", `data: {"tenant":"team-b","id":"secret","revision":1}`, "event: request", `data: {"tenant":"team-a","id":"one","revision":2}`)
}

func TestEventsByTopic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.open(b.admin, "?topics=quota,model")
	for _, topic := range topics {
		b.hub.Publish(Event{Topic: topic, Tenant: "team-a"})
	}
	f.sees("event: model", `data: {"tenant":"team-a","id":"","revision":0}`, "event: quota")
	for _, bad := range []string{"weather", "request,", "request, model"} {
		b.ask(b.admin, "GET", "/events?topics="+strings.ReplaceAll(bad, " ", "%20"), "").fails(400, "invalid_request")
	}
}

// What another process changed makes every stream start anew, whatever it
// asked for and whoever reads it.
func TestChangesElsewhereResetEveryStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.open(b.a, "?topics=node")
	b.hub.Reset()
	f.sees("event: reset", "data: {}")
}

// A subscriber that does not keep up is ended, and starts anew with a reset;
// nobody else is held back.
func TestSlowSubscriberIsEnded(t *testing.T) {
	t.Parallel()
	h := NewHub()
	slow, leave, _ := h.subscribe("slow")
	quick, _, _ := h.subscribe("quick")
	for i := range subscriberQueue + 1 {
		h.Publish(Event{Topic: "node", Revision: int64(i)})
		if e := <-quick; e.Revision != int64(i) {
			t.Fatalf("the quick one got %d, want %d", e.Revision, i)
		}
	}
	n := 0
	for range slow {
		n++
	}
	if n != subscriberQueue {
		t.Errorf("the slow one got %d events before its end, want %d", n, subscriberQueue)
	}
	leave()
	h.Publish(Event{Topic: "node"}) // does not write to the closed one
}

func TestSubscribersAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, leave, _ := b.hub.subscribe("k0")
	for i := 1; i < maxSubscribers; i++ {
		if _, _, err := b.hub.subscribe(fmt.Sprint("k", i)); err != nil {
			t.Fatalf("refused at %d: %v", i, err)
		}
	}
	a := b.ask(b.a, "GET", "/events", "")
	a.fails(503, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	leave()
	b.open(b.a, "")
}

func TestNobodyTakesAllStreams(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range maxPerKey {
		if _, _, err := b.hub.subscribe(idOf(b.a)); err != nil {
			t.Fatal(err)
		}
	}
	b.ask(b.a, "GET", "/events", "").fails(429, "too_many_streams")
	b.open(b.b, "")
}

func TestStreamsEndWhenTheHubCloses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.open(b.a, "")
	b.hub.Close()
	b.hub.Close()
	f.ends()
}

// A stream is kept alive by comments, and does not outlive its key.
func TestStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.hub.quiet, b.server.askAgain = time.Millisecond, 20*time.Millisecond
	f := b.open(b.a, "")
	f.sees(": keep-alive")
	b.ok(b.ledger.RevokeKey(t.Context(), idOf(b.a)))
	if last := f.last(); last != `data: {"message":"the key `+idOf(b.a)+` is revoked or has expired: ask an admin for a new one"}` {
		t.Errorf("the last words are %s", last)
	}
	b.hub.quiet = time.Hour // no comment reminds of it
	expiring := b.key(budget.RoleTenant, "team-b", time.Hour)
	f = b.open(expiring, "")
	b.skew.Store(int64(2 * time.Hour))
	if last := f.last(); !strings.Contains(last, "has expired") {
		t.Errorf("the last words are %s", last)
	}
	if identifyAgain >= 5*time.Second {
		t.Errorf("a key is looked at every %s", identifyAgain)
	}
}

// A followed log ends with its key, too, whatever the engine goes on to say.
func TestFollowedLogsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server.askAgain = 20 * time.Millisecond
	b.target.logs = func(ctx context.Context, _ string, _ int, _ bool) (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, "half a li")
			<-ctx.Done()
			_ = out.Close()
		}()
		return in, nil
	}
	b.submit(b.a, "one")
	r := b.request("GET", "/requests/one/logs?follow=1", "")
	r.Header.Set("Authorization", "Bearer "+b.a)
	resp, err := http.DefaultClient.Do(r)
	b.ok(err)
	defer func() { _ = resp.Body.Close() }()
	b.ok(b.ledger.RevokeKey(t.Context(), idOf(b.a)))
	got := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(resp.Body)
		got <- string(all)
	}()
	select {
	case text := <-got:
		if text != "half a li\n[modeldock: the key "+idOf(b.a)+" is revoked or has expired: ask an admin for a new one]\n" {
			t.Errorf("it was %q", text)
		}
	case <-time.After(30 * time.Second):
		t.Error("it goes on")
	}
}
