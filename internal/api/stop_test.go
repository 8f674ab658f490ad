package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/traffic/gateway"
)

// A log that is followed ends with a word when the process stops; otherwise
// whoever follows one would hold up its end for the whole grace.
func TestFollowedLogsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	begun := make(chan struct{})
	b.target.logs = func(ctx context.Context, _ string, _ int, follow bool) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, "from the engine\n")
			if follow {
				close(begun)
				<-ctx.Done()
			}
			_ = w.Close()
		}()
		return r, nil
	}
	all := make(chan answer, 1)
	go func() { all <- b.ask(b.a, "GET", "/requests/one/logs?follow=true", "") }()
	<-begun
	b.hub.Close()
	if a := (<-all).is(200); string(a.body) != "from the engine\n\n[modeldock: this process stops; follow again]\n" {
		t.Errorf("the log ends with %q", a.body)
	}
	if a := b.ask(b.a, "GET", "/requests/one/logs", "").is(200); string(a.body) != "from the engine\n" {
		t.Errorf("a log that is not followed is %q", a.body)
	}
}

// A call that is not answered when the grace ends is told so, as calls of
// models are.
func TestCallsAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.admit()
	b.bind()
	began := make(chan struct{})
	ctxs := make(chan context.Context, 1)
	b.server.Target = observing{func(ctx context.Context) (delivery.Status, error) {
		close(began)
		ctxs <- ctx
		<-ctx.Done()
		return delivery.Status{}, ctx.Err()
	}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	b.ok(err)
	server := gateway.NewServer(b.server.Handler())
	go func() { _ = server.Serve(listener) }()
	b.url = "http://" + listener.Addr().String()
	all := make(chan answer, 1)
	go func() { all <- b.ask(b.a, "GET", "/requests/one/logs?replica=p", "") }()
	<-began
	if server.Stop(0) {
		t.Error("it says that all calls had ended")
	}
	a := <-all
	if e := a.fails(503, "unavailable"); !strings.Contains(e.Message, "this process stops") || a.header.Get("Retry-After") == "" {
		t.Errorf("the call was told %v %s", a.header, a.body)
	}
	if !gateway.Stopped(<-ctxs) {
		t.Error("what the call waited for does not know why it ended")
	}
}

// observing is a target that is looked at with the call's context.
type observing struct {
	observe func(ctx context.Context) (delivery.Status, error)
}

func (o observing) Observe(ctx context.Context, _ budget.Ref) (delivery.Status, error) {
	return o.observe(ctx)
}

func (observing) Logs(context.Context, budget.Ref, string, int, bool) (io.ReadCloser, error) {
	return nil, http.ErrAbortHandler
}
