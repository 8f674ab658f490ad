package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

const patience = 20 * time.Second

// target answers what a test wants to see on the other side.
type target struct {
	applied delivery.Desired
	deleted deletion
	status  delivery.Status
	err     error
	logs    func(ctx context.Context) (io.ReadCloser, error)
}

func (t *target) Apply(_ context.Context, d delivery.Desired) (budget.Object, error) {
	t.applied = d
	return budget.Object{Name: d.Name, UID: "uid-1"}, t.err
}

func (t *target) Delete(_ context.Context, ref budget.Ref, uid string) error {
	t.deleted = deletion{ref, uid}
	return t.err
}

func (t *target) Observe(context.Context, budget.Ref) (delivery.Status, error) {
	return t.status, t.err
}

func (t *target) List(context.Context) ([]delivery.Status, error) {
	return []delivery.Status{t.status, t.status}, t.err
}

func (t *target) Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	if t.logs == nil {
		return io.NopCloser(strings.NewReader(fmt.Sprint(ref, " ", replica, " ", tail, " ", follow))), t.err
	}
	return t.logs(ctx)
}

// share serves t in a directory whose path is longer than a socket's may be.
func share(t *testing.T, served Served) (*Server, *Client, func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := NewServer(served)
	start := func() func() {
		l, err := Listen(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: patience}
		go func() { _ = h.Serve(l) }()
		return func() { _ = h.Close() }
	}
	stop := start()
	client, err := NewClient(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = client.Close() })
	return server, client, func() { stop(); stop = start() }
}

func TestCallsArriveWhole(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	ref := budget.Ref{Tenant: "team-a", ID: "x"}
	served := &target{status: delivery.Status{
		Ref: ref, Object: budget.Object{Name: "md-x", UID: "u"}, Ledger: "l", Exists: true, Generation: 3, Wanted: 2, Ready: 1, Reason: delivery.Loading, Message: "m",
		Replicas:    []delivery.Replica{{Name: "r-0", UID: "p", Phase: delivery.PhaseReady, Cards: []delivery.Card{{UUID: "c", MiB: 5, FreeMiB: 7}}, PID: 9, ReadyAt: now}},
		LastFailure: &delivery.Failure{Reason: delivery.Crashed, At: now, ExitCode: -1}, CreatedAt: now, ObservedAt: now,
	}}
	_, c, _ := share(t, served)
	want := delivery.Desired{Ref: ref, Ledger: "l", Name: "md-x", Generation: 3, Funded: 2, UID: "u", Model: modelspec.Model{Name: "m", Env: map[string]string{"SECRET": "s"}, Args: []string{"--a"}}}
	if o, err := c.Apply(t.Context(), want); err != nil || o.UID != "uid-1" || o.Name != "md-x" || !reflect.DeepEqual(served.applied, want) {
		t.Errorf("apply: %+v, %v; it saw %+v", o, err, served.applied)
	}
	if err := c.Delete(t.Context(), ref, "u"); err != nil || served.deleted != (deletion{ref, "u"}) {
		t.Errorf("delete: %v; it saw %+v", err, served.deleted)
	}
	if st, err := c.Observe(t.Context(), ref); err != nil || !reflect.DeepEqual(st, served.status) {
		t.Errorf("observe: %v\n%+v\n%+v", err, st, served.status)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 2 || !reflect.DeepEqual(list[1], served.status) {
		t.Errorf("list: %+v, %v", list, err)
	}
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	served := &target{err: fmt.Errorf("apply md-x: the file is foreign: %w", delivery.ErrNameTaken)}
	_, c, _ := share(t, served)
	if _, err := c.Apply(t.Context(), delivery.Desired{}); !errors.Is(err, delivery.ErrNameTaken) || err.Error() != served.err.Error() {
		t.Errorf("a taken name arrives as %v", err)
	}
	unknown := &delivery.UnknownReplicaError{Ref: budget.Ref{Tenant: "t", ID: "x"}, Replica: "7", Existing: []string{"x-0"}}
	served.err = unknown
	var got *delivery.UnknownReplicaError
	if _, err := c.Logs(t.Context(), unknown.Ref, "7", 0, false); !errors.As(err, &got) || !reflect.DeepEqual(got, unknown) || !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("an unknown replica arrives as %v", err)
	}
	served.err = errors.New("the disk is full")
	if err := c.Delete(t.Context(), budget.Ref{}, ""); err == nil || !strings.Contains(err.Error(), "the disk is full") || errors.Is(err, delivery.ErrNameTaken) {
		t.Errorf("another error arrives as %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	c, err := NewClient(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "modeldock up") {
		t.Errorf("without a process: %v", err)
	}
	if _, err := NewClient(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a data directory that does not exist is accepted")
	}
}

// A reader who leaves ends the follower at the other side.
func TestLogsFollowAndEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	served := &target{logs: func(ctx context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, "first line\n")
			<-ctx.Done()
			close(ended)
			_ = w.Close()
		}()
		return r, nil
	}}
	_, c, _ := share(t, served)
	ctx, cancel := context.WithCancel(t.Context())
	out, err := c.Logs(ctx, budget.Ref{}, "", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 11)
	if _, err := io.ReadFull(out, buf); err != nil || string(buf) != "first line\n" {
		t.Fatalf("read %q, %v", buf, err)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the follower goes on without a reader")
	}
	_ = out.Close()
}

// Whoever watches hears of changes, and of everything after a restart.
func TestWatchSurvivesARestart(t *testing.T) {
	t.Parallel()
	server, c, restart := share(t, &target{})
	heard := make(chan budget.Ref, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Watch(ctx, func(r budget.Ref) { heard <- r }) }()
	next := func(what string, want budget.Ref) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("%s: heard %+v, want %+v", what, got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nothing heard", what)
		}
	}
	next("at first", budget.Ref{})
	server.Changed(budget.Ref{Tenant: "t", ID: "x"})
	next("a change", budget.Ref{Tenant: "t", ID: "x"})
	restart()
	next("after a restart", budget.Ref{})
	server.Changed(budget.Ref{Tenant: "t", ID: "y"})
	next("a later change", budget.Ref{Tenant: "t", ID: "y"})
	cancel()
	<-done
}

// The socket is for the owner of the directory, and a second listener takes
// the place of what an earlier process left.
func TestSocketIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		l, err := Listen(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		conn, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}
