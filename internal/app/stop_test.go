package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
)

// arrives waits for what must happen.
func arrives[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	return v
}

// lonelyController runs a management API on a ledger of its own; the machine
// that it is for is away. stop begins its end, done is closed after it.
func lonelyController(t *testing.T, grace time.Duration) (address, key string, stop func(), done <-chan struct{}) {
	t.Helper()
	log := &said{}
	c := &controller{control: newControl(log), opts: DefaultControllerOptions()}
	c.opts.Machine, c.opts.Parts, c.opts.StopGrace = t.TempDir(), []string{partAPI}, grace
	ledger, err := sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{OnChange: c.ledgerChanged})
	if err != nil {
		t.Fatal(err)
	}
	c.ledger = ledger
	text, minted := budget.MintKey(budget.RoleAdmin, "", time.Now(), 0)
	if err := ledger.CreateKey(t.Context(), minted); err != nil {
		t.Fatal(err)
	}
	if c.forwarded, err = c.forward(); err == nil {
		err = c.build(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	main, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.serve(ctx, listeners{main: main}, io.Discard, func(url string) { ready <- url }); err != nil {
			t.Errorf("it ended with %v", err)
		}
		_, _ = c.world.close(), ledger.Close()
	}()
	t.Cleanup(func() {
		stop()
		arrives(t, "the end of the controller", ended)
		if t.Failed() {
			t.Logf("it said: %s", log)
		}
	})
	return strings.TrimPrefix(arrives(t, "the controller to be ready", ready), "http://"), text, stop, ended
}

// begun is a request whose body has not come to its end: the server has it, and
// waits.
type begun struct {
	*testing.T
	net.Conn
	answers *bufio.Reader
}

func begin(t *testing.T, address, key string) begun {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	// Asked to, the server says that it reads the body now.
	_, err = fmt.Fprintf(conn, "PUT /tenants/team-z/quota HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", key)
	b := begun{t, conn, bufio.NewReader(conn)}
	if line, readErr := b.answers.ReadString('\n'); err != nil || readErr != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%v, %v: %q", err, readErr, line)
	}
	_, _ = b.answers.ReadString('\n')
	return b
}

// A controller that stops ends event streams with a word, takes no new call,
// and waits for those that run.
func TestControllerLetsCallsFinish(t *testing.T) {
	t.Parallel()
	address, key, stop, done := lonelyController(t, 2*patience)
	running := begin(t, address, key)
	events, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	events.Header.Set("Authorization", "Bearer "+key)
	stream, err := http.DefaultClient.Do(events)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	stop()
	text, err := io.ReadAll(stream.Body) // ends long before the grace does
	if err != nil || !strings.HasSuffix(string(text), ": this process stops; connect again\n\n") {
		t.Errorf("the events end with %v: %q", err, text)
	}
	select {
	case <-done:
		t.Fatal("it ended although a call runs")
	default:
	}
	_, _ = io.WriteString(running, `{"cap":3}`)
	resp, err := http.ReadResponse(running.answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"cap":3`) {
		t.Errorf("the call that ran was answered %d: %s", resp.StatusCode, text)
	}
	arrives(t, "the end", done)
}

// Whoever waits for a replica when a gateway stops has nothing to lose: it is
// told at once, at the begin of the grace, to come back.
func TestGatewayTellsThoseWhoWaitFirst(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", 40)
	text, minted := budget.MintKey(budget.RoleTenant, "team-a", time.Now(), 0)
	snapshot := &traffic.Snapshot{
		Version: 1, At: time.Now(), Keys: map[string]traffic.Key{minted.ID: {ID: minted.ID, Tenant: "team-a", SecretHash: minted.SecretHash}},
		Models: []traffic.Model{{Owner: "team-a", Name: "m", Version: "v1", RequestID: "m", ObjectUID: "o", Weight: 100, WaitTimeout: time.Hour, MaxWaiting: 10, Asleep: true}},
	}
	control := httptest.NewServer(feed.NewServer(feed.ServerConfig{
		Token: token, Snapshot: func() *traffic.Snapshot { return snapshot }, Refresh: func(context.Context, time.Time) error { return nil },
		Store: func(context.Context, []traffic.Inference) error { return nil }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	}).Handler())
	defer control.Close()
	o := DefaultGatewayOptions()
	o.Listen, o.OpsListen, o.Control, o.Token = "127.0.0.1:0", "127.0.0.1:0", []string{control.URL}, token
	o.StateDir, o.Endpoints.Machine, o.StopGrace = t.TempDir(), t.TempDir(), time.Hour
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, ended := make(chan string, 1), make(chan error, 1)
	log := &said{}
	go func() { ended <- Gateway(ctx, o, log, func(url string) { ready <- url }) }()
	url := arrives(t, "the gateway to be ready", ready)
	answered := make(chan string, 1)
	go func() {
		for { // until the snapshot has come
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				answered <- err.Error()
				return
			}
			req.Header.Set("Authorization", "Bearer "+text)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				answered <- err.Error()
				return
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if strings.Contains(string(body), "shutting_down") || ctx.Err() != nil {
				answered <- fmt.Sprintf("%d Retry-After=%s %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	// The machine that would wake the model is away, which the log says once
	// somebody waits for it.
	for end := time.Now().Add(patience); !strings.Contains(log.String(), "is not woken"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nobody waits: %s", log)
		}
	}
	stop()
	if said := arrives(t, "the word to the caller who waits", answered); !strings.HasPrefix(said, "503 Retry-After=") || strings.HasPrefix(said, "503 Retry-After= ") || !strings.Contains(said, "shutting_down") {
		t.Errorf("the caller was told %s", said)
	}
	if err := arrives(t, "the end, an hour before that of the grace", ended); err != nil {
		t.Error(err)
	}
}
