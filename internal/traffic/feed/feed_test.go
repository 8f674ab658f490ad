package feed

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/traffic"
)

const (
	patience = 20 * time.Second
	token    = "0123456789abcdef0123456789abcdef"
)

var quiet = slog.New(slog.DiscardHandler)

func snapshotOf(models ...string) *traffic.Snapshot {
	s := &traffic.Snapshot{
		Keys:      map[string]traffic.Key{"k": {ID: "k", Tenant: "team-a", SecretHash: [32]byte{1, 2, 255}, ExpiresAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Grants:    map[traffic.GrantKey]struct{}{{Owner: "a", Model: "m", Grantee: "b"}: {}},
		TakenBack: map[traffic.GrantKey]struct{}{{Owner: "a", Model: "n", Grantee: "b"}: {}},
		Owned:     map[string]map[string]struct{}{"a": {"m": {}, "n": {}}},
		Crowded:   map[string]struct{}{"a": {}},
		Limits: map[string]traffic.Limits{
			"a": {Together: traffic.Rates{RequestsPerMinute: 5, TokensPerDay: 9}, Window: 10 * time.Second, MaxClass: "batch"},
			"b": {PerKey: traffic.Rates{Concurrency: 2}},
		},
	}
	for _, m := range models {
		s.Models = append(s.Models, traffic.Model{Owner: "a", Name: m, Version: "v1", WaitTimeout: 3 * time.Second, Weight: 7})
	}
	return s
}

// plane is a control plane whose snapshot a test changes.
type plane struct {
	server  *Server
	http    *httptest.Server
	now     atomic.Pointer[traffic.Snapshot]
	refresh atomic.Pointer[error]
	asked   atomic.Int64
	calls   atomic.Int64

	mu     sync.Mutex
	woken  []traffic.Wake
	stored []traffic.Inference
	refuse error
}

func control(t *testing.T) *plane {
	t.Helper()
	p := &plane{}
	p.take(snapshotOf("one"))
	p.server = NewServer(ServerConfig{
		Token: token, Snapshot: p.now.Load, Clock: time.Now, Logger: quiet,
		Refresh: func(context.Context, time.Time) error {
			p.asked.Add(1)
			if err := p.refresh.Load(); err != nil {
				return *err
			}
			if was := p.now.Load(); was != nil {
				same := *was
				p.take(&same)
			}
			return nil
		},
		Wake: func(_ context.Context, w traffic.Wake) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.refuse == nil {
				p.woken = append(p.woken, w)
			}
			return p.refuse
		},
		Store: func(_ context.Context, batch []traffic.Inference) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.refuse == nil {
				p.stored = append(p.stored, batch...)
			}
			return p.refuse
		},
	})
	p.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		p.server.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { p.http.CloseClientConnections(); p.http.Close() })
	return p
}

func (p *plane) set(s *traffic.Snapshot) {
	p.take(s)
	p.server.Changed()
}

// take makes s what was read from the ledger just now.
func (p *plane) take(s *traffic.Snapshot) {
	if s != nil {
		s.At = time.Now()
	}
	p.now.Store(s)
}

func gatewayOf(t *testing.T, file string, urls ...string) *Client {
	t.Helper()
	c, err := NewClient(ClientConfig{URLs: urls, Token: token, File: file, Clock: time.Now, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *plane) follow(t *testing.T, c *Client) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func names(s *traffic.Snapshot) string {
	var out []string
	if s != nil {
		for _, m := range s.Models {
			out = append(out, m.Name)
		}
	}
	return strings.Join(out, " ")
}

func TestSnapshotArrivesWholeAndAtOnce(t *testing.T) {
	t.Parallel()
	p := control(t)
	c := gatewayOf(t, "", p.http.URL)
	var changes atomic.Int64
	c.OnChange(func() { changes.Add(1) })
	p.follow(t, c)
	eventually(t, "the first snapshot", func() bool { return names(c.Snapshot()) == "one" })
	got, want := *c.Snapshot(), *snapshotOf("one")
	got.At, got.Version = want.At, want.Version
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it arrived as\n%+v\nof\n%+v", got, want)
	}
	p.set(snapshotOf("one", "two"))
	eventually(t, "the next one", func() bool { return names(c.Snapshot()) == "one two" })
	calls := p.calls.Load()
	p.set(snapshotOf("one", "two")) // says the same: nobody is told
	p.set(snapshotOf("three"))
	eventually(t, "the third one", func() bool { return names(c.Snapshot()) == "three" })
	if n := changes.Load(); n != 3 || c.Snapshot().Version != 3 {
		t.Errorf("%d changes were told, version %d; want 3", n, c.Snapshot().Version)
	}
	if n := p.calls.Load() - calls; n > 2 {
		t.Errorf("%d calls for one change", n)
	}
}

// A caller who may be refused asks for a snapshot taken from now on; many ask
// once, and while the control plane cannot say they are told so.
// What was read from the ledger a while ago is that old to the gateway, too,
// when it arrives and when it is confirmed: who asks for news of something made
// meanwhile gets them.
func TestASnapshotIsAsOldAsWhenItWasTaken(t *testing.T) {
	t.Parallel()
	p := control(t)
	c := gatewayOf(t, "", p.http.URL)
	old := snapshotOf("one")
	old.At = time.Now().Add(-time.Minute)
	p.now.Store(old)
	p.follow(t, c)
	eventually(t, "the first snapshot", func() bool { return names(c.Snapshot()) == "one" })
	if age := time.Since(c.Snapshot().At); age < time.Minute {
		t.Errorf("it counts as %s old, and was taken a minute ago", age)
	}
	later := snapshotOf("one", "two")
	later.At = time.Now().Add(-30 * time.Second)
	p.now.Store(later)
	p.server.Changed() // while a call waits
	eventually(t, "the next one", func() bool { return names(c.Snapshot()) == "one two" })
	if age := time.Since(c.Snapshot().At); age < 30*time.Second {
		t.Errorf("it counts as %s old, and was taken half a minute ago", age)
	}
	since := time.Now()
	if err := c.Refresh(t.Context(), since); err != nil || c.Snapshot().At.Before(since) || p.asked.Load() == 0 {
		t.Errorf("after a question for news: %v, taken %s before it, %d refreshes", err, since.Sub(c.Snapshot().At), p.asked.Load())
	}
}

func TestRefreshIsSharedAndHonest(t *testing.T) {
	t.Parallel()
	p := control(t)
	c := gatewayOf(t, "", p.http.URL)
	since := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := c.Refresh(t.Context(), since); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := p.asked.Load(); n != 1 || c.Snapshot().At.Before(since) {
		t.Errorf("asked %d times, the snapshot is of %v, want since %v", n, c.Snapshot().At, since)
	}
	away := errors.New("the ledger is away")
	p.refresh.Store(&away)
	if err := c.Refresh(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "the ledger is away") {
		t.Errorf("a refresh that failed says %v", err)
	}
	if names(c.Snapshot()) != "one" {
		t.Error("the last snapshot is lost")
	}
}

// lockedLog is a log that a test reads while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// With the control plane away the last snapshot stays, also over a restart of
// the gateway; another control plane is found by itself.
func TestGoesOnWithoutControlPlane(t *testing.T) {
	t.Parallel()
	p := control(t)
	file := filepath.Join(t.TempDir(), "snapshot.json")
	first := gatewayOf(t, file, p.http.URL)
	if err := first.Refresh(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the kept snapshot: %v, %v", info, err)
	}
	p.http.CloseClientConnections()
	p.http.Close()
	other := control(t)
	other.now.Store(snapshotOf("elsewhere"))
	c := gatewayOf(t, file, p.http.URL, other.http.URL)
	if names(c.Snapshot()) != "one" {
		t.Fatalf("after a restart it has %q", names(c.Snapshot()))
	}
	p.follow(t, c)
	eventually(t, "the other control plane", func() bool { return names(c.Snapshot()) == "elsewhere" && c.Lost() == "" })

	var log lockedLog
	fresh, err := NewClient(ClientConfig{URLs: []string{p.http.URL}, Token: token, Clock: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p.follow(t, fresh)
	eventually(t, "the outage to be told", func() bool { return fresh.Lost() != "" && strings.Contains(log.String(), "there is no snapshot yet") })

	alone := gatewayOf(t, file, p.http.URL)
	p.follow(t, alone)
	eventually(t, "the outage to be noticed", func() bool { return alone.Lost() != "" })
	if names(alone.Snapshot()) == "" {
		t.Error("without a control plane the kept snapshot is lost")
	}
}

func TestKeptSnapshotOfNoUse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	for _, text := range []string{"", "{", `{"Format":99}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := gatewayOf(t, file, "http://127.0.0.1:1"); c.Snapshot() != nil {
			t.Errorf("%q became a snapshot", text)
		}
	}
}

func TestOnlyGatewaysMayAsk(t *testing.T) {
	t.Parallel()
	p := control(t)
	for _, given := range []string{"", "Bearer ", "Bearer " + token[1:], token, "Bearer " + token + " "} {
		for method, path := range map[string]string{"GET": PathSnapshot, "POST": PathInferences} {
			r, err := http.NewRequestWithContext(t.Context(), method, p.http.URL+path, strings.NewReader("[]"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", given)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if trimmed := strings.TrimSpace(given) == "Bearer "+token; (resp.StatusCode != http.StatusUnauthorized) != trimmed {
				t.Errorf("%s %s with %q: %s", method, path, given, resp.Status)
			}
		}
	}
	if CheckToken(token) != nil || CheckToken(token[1:]) == nil {
		t.Error("the length of a token is judged wrongly")
	}
}

func TestEvidenceGoesBack(t *testing.T) {
	t.Parallel()
	p := control(t)
	c := gatewayOf(t, "", p.http.URL)
	record := traffic.Inference{
		RequestID: "r1", Tenant: "team-a", Outcome: traffic.Completed, QueuedFor: 5 * time.Millisecond,
		ReceivedAt: time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.UTC), PromptTokens: 3,
	}
	if err := c.Store(t.Context(), []traffic.Inference{record}); err != nil || !reflect.DeepEqual(p.stored, []traffic.Inference{record}) {
		t.Errorf("%v; it arrived as %+v", err, p.stored)
	}
	p.refuse = errors.New("disk full")
	if err := c.Store(t.Context(), []traffic.Inference{record}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a refusal says %v", err)
	}
}

// Two snapshots have one tag exactly if they say the same, in whatever order.
func TestTagNamesTheContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d]{1,3}`), 0, 5, rapid.ID)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		shuffled := rapid.Permutation(a).Draw(t, "order")
		_, tagA, err := encode(snapshotOf(a...))
		body, again, err2 := encode(snapshotOf(shuffled...))
		_, tagB, err3 := encode(snapshotOf(b...))
		if err := errors.Join(err, err2, err3); err != nil || tagA != again {
			t.Fatalf("%v: %s and %s", err, tagA, again)
		}
		same := len(a) == len(b)
		for _, x := range a {
			found := false
			for _, y := range b {
				found = found || x == y
			}
			same = same && found
		}
		if (tagA == tagB) != same {
			t.Fatalf("%v and %v: %s and %s", a, b, tagA, tagB)
		}
		if s, err := decode(body); err != nil || len(s.Models) != len(a) || len(s.Keys) != 1 || len(s.Owned["a"]) != 2 {
			t.Fatalf("decoded: %+v, %v", s, err)
		}
	})
}

// A wake reaches a controller although the first one is gone, and says so when
// none can do it.
func TestWakeReachesSomebody(t *testing.T) {
	t.Parallel()
	p := control(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := gatewayOf(t, "", gone.URL, p.http.URL)
	w := traffic.Wake{Owner: "team-a", Model: "m", Version: "v1", RequestID: "r", ObjectUID: "u", Since: time.Unix(1_800_000_000, 0).UTC()}
	if err := c.Wake(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	if len(p.woken) != 1 || p.woken[0] != w {
		t.Errorf("woken: %+v", p.woken)
	}
	p.refuse = errors.New("the ledger is away")
	p.mu.Unlock()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := c.Wake(ctx, w); err == nil {
		t.Error("nobody could do it, and it was not told")
	}
}

// A controller that has just started says nothing, instead of that nothing is
// served: the gateway keeps what it knows.
func TestNoSnapshotIsNoEmptyOne(t *testing.T) {
	t.Parallel()
	p := control(t)
	c := gatewayOf(t, "", p.http.URL)
	p.follow(t, c)
	eventually(t, "the first snapshot", func() bool { return names(c.Snapshot()) == "one" })
	p.set(nil)
	asked := p.calls.Load()
	eventually(t, "more questions", func() bool { return p.calls.Load() > asked+3 })
	if names(c.Snapshot()) != "one" || c.Lost() == "" {
		t.Errorf("the gateway has %q, lost %q", names(c.Snapshot()), c.Lost())
	}
	p.set(snapshotOf("two"))
	eventually(t, "the next one", func() bool { return names(c.Snapshot()) == "two" && c.Lost() == "" })
}

// Whoever asks for news gets them as long as one controller has some.
func TestRefreshAsksTheOtherController(t *testing.T) {
	t.Parallel()
	bad, good := control(t), control(t)
	away := errors.New("the ledger does not answer")
	bad.refresh.Store(&away)
	c := gatewayOf(t, "", bad.http.URL, good.http.URL)
	c.OnChange(func() {})
	if err := c.Refresh(t.Context(), time.Now()); err != nil || names(c.Snapshot()) != "one" {
		t.Errorf("%q (%v)", names(c.Snapshot()), err)
	}
	if bad.asked.Load() != 1 || good.asked.Load() != 1 {
		t.Errorf("asked %d and %d times", bad.asked.Load(), good.asked.Load())
	}
	good.refresh.Store(&away)
	if err := c.Refresh(t.Context(), time.Now()); err == nil {
		t.Error("nobody had news, and it was not told")
	}
}
