package app

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestMetricsAnswerThisMachineOnly(t *testing.T) {
	t.Parallel()
	h := loopbackOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, c := range []struct {
		from, host, header string
		status             int
	}{
		{"127.0.0.1:5", "127.0.0.1:8080", "", 418},
		{"[::1]:5", "[::1]:8080", "", 418},
		{"127.0.0.1:5", "localhost", "", 418},
		{"127.0.0.1:5", "LOCALHOST:8080", "", 418},
		{"192.0.2.1:5", "localhost", "", 403},
		{"[2001:db8::1]:5", "localhost", "", 403},
		{"nonsense", "localhost", "", 403},
		// What a proxy on this machine sends for somebody else.
		{"127.0.0.1:5", "localhost", "X-Forwarded-For", 403},
		{"127.0.0.1:5", "localhost", "X-Forwarded-Proto", 403},
		{"127.0.0.1:5", "localhost", "X-Real-Ip", 403},
		{"127.0.0.1:5", "localhost", "Forwarded", 403},
		{"127.0.0.1:5", "localhost", "Via", 403},
		// A page of another site, whose name leads here since a moment ago.
		{"127.0.0.1:5", "evil.example:8080", "", 403},
		{"127.0.0.1:5", "localhost.evil.example", "", 403},
		{"127.0.0.1:5", "", "", 403},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.RemoteAddr, req.Host = c.from, c.host
		if c.header != "" {
			req.Header.Set(c.header, "127.0.0.1")
		}
		h.ServeHTTP(w, req)
		if w.Code != c.status {
			t.Errorf("%+v: %d", c, w.Code)
		}
		if w.Code == 403 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%+v: %s", c, w.Body)
		}
	}
}

// The words of a broken part name tenants: a caller behind a proxy learns
// which part it is, an admin and somebody on this machine learn all.
func TestReadyzKeepsTheWords(t *testing.T) {
	t.Parallel()
	p := &platform{control: newControl(&said{}), opts: DefaultUpOptions()}
	p.opts.DataDir, p.opts.Manual, p.opts.Cards = t.TempDir(), true, "2x24576"
	var err error
	if p.dir, err = openDataDir(p.opts.DataDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.dir.close)
	if err := p.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.gateway.Close()
		if err := errors.Join(p.recorder.FlushAndClose(context.Background()), p.machine.Close(context.Background()), p.ledger.Close()); err != nil {
			t.Error(err)
		}
	})
	raw, err := os.ReadFile(p.dir.file(keysFile))
	var keys map[string]string
	if err := errors.Join(err, json.Unmarshal(raw, &keys)); err != nil {
		t.Fatal(err)
	}
	p.health.ready(true)
	p.health.report(t.Context(), "verify", errors.New("tenant team-a: used 3 of 2"))
	handler := p.handler()
	for _, c := range []struct {
		from, proxy, who string
		words            bool
	}{
		{"127.0.0.1:5", "", "", true},
		{"127.0.0.1:5", "192.0.2.1", "", false},
		{"127.0.0.1:5", "192.0.2.1", "admin", true},
		{"192.0.2.1:5", "", "", false},
		{"192.0.2.1:5", "", "team-a", false},
		{"192.0.2.1:5", "", "admin", true},
	} {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/readyz", nil)
		req.RemoteAddr, req.Host = c.from, "localhost"
		if c.proxy != "" {
			req.Header.Set("X-Forwarded-For", c.proxy)
		}
		if c.who != "" {
			req.Header.Set("Authorization", "Bearer "+keys[c.who])
		}
		handler.ServeHTTP(w, req)
		body := w.Body.String()
		if w.Code != 503 || !strings.Contains(body, "verify: ") || strings.Contains(body, "team-a: used 3 of 2") != c.words {
			t.Errorf("%+v: %d %s", c, w.Code, body)
		}
	}
}

// With a listener for operations the main one has no metrics for anybody.
func TestUpHasItsOwnOperationsListener(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual, o.OpsListen = true, "127.0.0.1:0" })
	if status, _, body := r.ask("", "GET", "/metrics", ""); status != 404 || !strings.Contains(body, "--ops-listen") {
		t.Errorf("/metrics on the main listener: %d %.200s", status, body)
	}
	r.URL = r.Ops
	for path, want := range map[string]string{"/metrics": "modeldock_ledger_violations", "/readyz": `"ready":true`, "/healthz": `"ok"`, "/debug/pprof/cmdline": ""} {
		if status, _, body := r.ask("", "GET", path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s on the operations listener: %d %.200s", path, status, body)
		}
	}
	o := DefaultUpOptions()
	if o.OpsListen = "0.0.0.0:1"; o.Validate() == nil {
		t.Error("an operations listener beyond loopback needs no --insecure")
	}
}

// An engine of a tenant is no caller of this machine.
func TestEnginesReadNoMetrics(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give tenants users of their own")
	}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("/main", loopbackOnly(ok))
	mux.Handle("/ops", notForEngines(ok))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, path := range []string{"/main", "/ops"} {
		for uid, want := range map[int]int{0: 200, 1: 200, 200_000: 403, 299_999: 403} {
			if got := statusAs(t, uid, server.URL+path); got != want {
				t.Errorf("%s for uid %d: %d, want %d", path, uid, got, want)
			}
		}
	}
}

// statusAs asks by a socket that belongs to another user, as one has that a
// process of that user opened.
func statusAs(t *testing.T, uid int, url string) int {
	t.Helper()
	dialer := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		failed := c.Control(func(fd uintptr) { err = syscall.Fchown(int(fd), uid, uid) })
		return errors.Join(failed, err)
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
