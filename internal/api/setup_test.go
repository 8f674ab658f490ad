package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

type fakeTarget struct {
	observe func(ref budget.Ref) (delivery.Status, error)
	logs    func(ctx context.Context, replica string, tail int, follow bool) (io.ReadCloser, error)
}

func (f *fakeTarget) Observe(_ context.Context, ref budget.Ref) (delivery.Status, error) {
	return f.observe(ref)
}

func (f *fakeTarget) Logs(ctx context.Context, _ budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	return f.logs(ctx, replica, tail, follow)
}

type fakeFleet struct {
	nodes func() ([]openapi.Node, error)
}

func (f *fakeFleet) Nodes(context.Context) ([]openapi.Node, error) { return f.nodes() }

type fakeLoad struct{ endpoints []traffic.Endpoint }

func (f *fakeLoad) Endpoints(ref budget.Ref) (out []traffic.Endpoint, err error) {
	for _, e := range f.endpoints {
		if e.Owner == ref.Tenant && e.RequestID == ref.ID {
			out = append(out, e)
		}
	}
	return out, nil
}

func (*fakeLoad) InFlight(string) int  { return 3 }
func (*fakeLoad) Queue(budget.Ref) int { return 2 }

// fakeScaling reports the reservation with whatever report adds to it.
type fakeScaling struct {
	ledger budget.Ledger
	report func(*scaler.Report)
	warm   []scaler.WarmReport
}

func (f *fakeScaling) WarmPools(context.Context) ([]scaler.WarmReport, error) { return f.warm, nil }

func (f *fakeScaling) Explain(ctx context.Context, ref budget.Ref) (rep scaler.Report, err error) {
	if rep.Reservation, err = f.ledger.Get(ctx, ref); err == nil && f.report != nil {
		f.report(&rep)
	}
	return rep, err
}

type stepperFunc func(what string, count int, crash string) ([]openapi.StepDone, error)

func (f stepperFunc) Step(_ context.Context, what string, count int, crash string) ([]openapi.StepDone, error) {
	return f(what, count, crash)
}

// noAudit is a ledger whose audit log cannot be written.
type noAudit struct{ *sqlledger.Ledger }

func (noAudit) AppendAudit(context.Context, budget.AuditEntry) error {
	return errors.New("disk full")
}

// bundle is one server over a fresh ledger: pool default with 8 slots, team-a
// and team-b with 2 each, and a key of every kind.
type bundle struct {
	*testing.T
	ledger *sqlledger.Ledger
	target *fakeTarget
	fleet  *fakeFleet
	load   *fakeLoad
	hub    *Hub
	server *Server
	url    string
	skew   atomic.Int64 // nanoseconds that the server's clock is ahead
	admin  string
	viewer string
	a, b   string
}

func (b *bundle) now() time.Time {
	return time.Now().Add(time.Duration(b.skew.Load())).UTC().Truncate(time.Microsecond)
}

func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{T: t, hub: NewHub(), load: &fakeLoad{}}
	b.target = &fakeTarget{
		observe: func(ref budget.Ref) (delivery.Status, error) { return delivery.Status{Ref: ref}, nil },
		logs: func(context.Context, string, int, bool) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewBufferString("one\ntwo\n")), nil
		},
	}
	b.fleet = &fakeFleet{nodes: func() ([]openapi.Node, error) { return []openapi.Node{}, nil }}
	var err error
	b.ledger, err = sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: b.now})
	b.ok(err)
	t.Cleanup(func() { _ = b.ledger.Close() })
	_, err = b.ledger.SetPool(t.Context(), "default", 8)
	b.ok(err)
	for _, tenant := range []string{"team-a", "team-b"} {
		_, err = b.ledger.SetQuota(t.Context(), tenant, 2)
		b.ok(err)
	}
	b.admin, b.viewer = b.key(budget.RoleAdmin, "", 0), b.key(budget.RoleViewer, "", 0)
	b.a, b.b = b.key(budget.RoleTenant, "team-a", 0), b.key(budget.RoleTenant, "team-b", 0)
	cfg := Config{
		Ledger: b.ledger, Evidence: b.ledger, Target: b.target, Fleet: b.fleet, Load: b.load, Scaling: &fakeScaling{ledger: b.ledger}, Hub: b.hub, Clock: b.now,
		Diagnostics: func(context.Context) []openapi.DiagnosticPart { return []openapi.DiagnosticPart{} },
		ArgsOutside: func(modelspec.Model, map[string]bool) []string { return nil },
		Recent:      func(string) (traffic.Inference, bool) { return traffic.Inference{}, false },
		CheckSource: func(m modelspec.Model) error {
			if m.Source == "ftp://x" {
				return &modelspec.FieldError{Field: "model.source", Message: "no engine reads ftp://"}
			}
			return nil
		},
		Logger:   slog.New(slog.DiscardHandler),
		Restorer: &fakeRestorer{standstill: func() string { return "" }, accept: func(who, why string) (Accepted, error) { return Accepted{JournalSeq: 7}, nil }},
	}
	for _, f := range change {
		f(&cfg)
	}
	b.server = New(cfg)
	web := httptest.NewServer(b.server.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(b.hub.Close)
	b.url = web.URL
	return b
}

func (b *bundle) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) key(role budget.Role, tenant string, ttl time.Duration) string {
	b.Helper()
	text, k := budget.MintKey(role, tenant, b.now(), ttl)
	b.ok(b.ledger.CreateKey(b.Context(), k))
	return text
}

// answer is a whole HTTP answer.
type answer struct {
	*testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

func (b *bundle) do(r *http.Request) answer {
	b.Helper()
	resp, err := http.DefaultClient.Do(r)
	b.ok(err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	b.ok(err)
	return answer{b.T, r.Method + " " + r.URL.RequestURI(), resp.StatusCode, resp.Header, data}
}

func (b *bundle) request(method, path, body string) *http.Request {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, bytes.NewBufferString(body))
	b.ok(err)
	return r
}

// ask sends one call with a key (empty: none).
func (b *bundle) ask(key, method, path, body string) answer {
	b.Helper()
	r := b.request(method, path, body)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return b.do(r)
}

func (a answer) is(status int) answer {
	a.Helper()
	if a.status != status {
		a.Fatalf("%s answered %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// fails checks the one shape of errors.
func (a answer) fails(status int, code string) openapi.ErrorBody {
	a.Helper()
	a.is(status)
	var e openapi.Error
	if err := json.Unmarshal(a.body, &e); err != nil {
		a.Fatalf("%s: %v: %s", a.what, err, a.body)
	}
	if e.Error.Code != code || e.Error.Message == "" {
		a.Fatalf("%s: code %q with message %q, want code %q", a.what, e.Error.Code, e.Error.Message, code)
	}
	return e.Error
}

func read[T any](a answer, status int) T {
	a.Helper()
	a.is(status)
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.Fatalf("%s: %v: %s", a.what, err, a.body)
	}
	return v
}

func (b *bundle) submit(key, id string) openapi.Request {
	b.Helper()
	return read[openapi.Request](b.ask(key, "POST", "/requests", `{"id":"`+id+`","cost":1,"priority":50}`), 202)
}

func (b *bundle) admit() {
	b.Helper()
	_, err := b.ledger.Admit(b.Context(), 0)
	b.ok(err)
}

// bind delivers every apply that is due, under the uid "uid-ID".
func (b *bundle) bind() {
	b.Helper()
	rows, err := b.ledger.Claim(b.Context(), "relay", 100, time.Minute)
	b.ok(err)
	for _, in := range rows {
		b.ok(b.ledger.Delivered(b.Context(), in, budget.Object{Name: delivery.ObjectName(in.Ref), UID: "uid-" + in.Tenant + "-" + in.ID}))
	}
}

func (b *bundle) audits() []budget.AuditEntry {
	b.Helper()
	rows, err := b.ledger.Audit(b.Context(), 100)
	b.ok(err)
	return rows
}
