package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
)

type fakeRestorer struct {
	standstill func() string
	accept     func(who, why string) (Accepted, error)
	take       func(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error)
}

func (f *fakeRestorer) Standstill() string { return f.standstill() }

func (f *fakeRestorer) Differences() string { return "object x of team-b" }

func (f *fakeRestorer) AcceptOlder(_ context.Context, who, why string) (Accepted, error) {
	return f.accept(who, why)
}

func (f *fakeRestorer) Import(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error) {
	return f.take(ctx, doc, keep)
}

// into imports straight into a ledger, as the platform does without objects.
func into(l *sqlledger.Ledger, now func() time.Time) func(context.Context, io.ReadSeeker, string) (backup.Contents, error) {
	return func(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error) {
		r := backup.NewReader(doc)
		head, err := r.Head()
		if err != nil {
			return backup.Contents{}, err
		}
		contents, err := backup.Check(head, r.Rows(), now())
		if err != nil {
			return contents, err
		}
		return contents, l.Import(ctx, head, r.Rows(), keep)
	}
}

// Whatever a submit takes comes back from a copy: settings that are written in
// part, and those of every kind.
func TestEveryShapeOfARequestIsRestored(t *testing.T) {
	t.Parallel()
	from := setup(t)
	shapes := []string{
		`{}`, `{"scaling":{"idleSeconds":1}}`, `{"scaling":{"targets":{}}}`, `{"scaling":{"asleep":1},"replicas":{"min":0,"max":2}}`, `{"scaling":{"paused":true}}`,
		`{"scaling":{"targets":{"queueDepth":3}}}`, `{"scaling":{"actuator":"none","behavior":{"scaleUp":{"stabilizationWindowSeconds":0}}}}`,
		`{"scaling":{"behavior":{"scaleDown":{"selectPolicy":"Min","tolerance":0.1,"policies":[{"type":"Pods","value":1,"periodSeconds":1}]},"scaleUp":{}}}}`,
		`{"coldStart":{}}`, `{"coldStart":{"timeoutSeconds":9}}`, `{"args":["--tokens=3"]}`, `{"class":"vision","workload":"batch","gpus":2,"version":"v2"}`,
		`{"traffic":{"weight":3}}`, `{"cache":{"ttlSeconds":5}}`,
	}
	for i, model := range shapes {
		from.ask(from.a, "POST", "/requests", `{"id":"r`+strconv.Itoa(i)+`","cost":1,"priority":50,"model":`+model+`}`).is(http.StatusAccepted)
	}
	from.admit()
	changed := 0
	for i := range shapes {
		// Admitted or waiting, changed once or twice, or released.
		for n := range i % 3 {
			patch := `{"generation":` + strconv.Itoa(n+1) + `,"traffic":{"weight":` + strconv.Itoa(n+5) + `},"coldStart":{"timeoutSeconds":` + strconv.Itoa(n+9) + `},"scaling":{"idleSeconds":7}}`
			if r := from.ask(from.a, "PATCH", "/requests/r"+strconv.Itoa(i), patch); r.status == http.StatusOK {
				changed++
			}
		}
	}
	if changed < len(shapes)/2 {
		t.Errorf("only %d changes were made", changed)
	}
	from.ask(from.a, "POST", "/requests/r3/release", `{"why":"`+strings.Repeat("w", auditText)+`"}`)
	from.ask(from.admin, "POST", "/keys", `{"role":"tenant","tenant":"nobody-yet","expiresInSeconds":316224000}`).is(http.StatusCreated)
	from.ask(from.admin, "PUT", "/tenants/"+strings.Repeat("t", 128)+"/quota?x="+strings.Repeat("y", 2*auditText), `{"cap":1}`)
	doc := from.ask(from.admin, "GET", "/ledger/export", "").is(http.StatusOK)
	to := setup(t, func(c *Config) {
		c.Restorer = &fakeRestorer{standstill: func() string { return "" }, take: into(c.Ledger.(*sqlledger.Ledger), c.Clock)}
	})
	done := read[openapi.LedgerImported](to.ask(to.admin, "POST", "/ledger/import", string(doc.body)), http.StatusOK)
	if *done.Reservations != len(shapes) {
		t.Errorf("%d of %d requests came back", *done.Reservations, len(shapes))
	}
	for i := range shapes {
		path := "/requests/r" + strconv.Itoa(i)
		was, is := read[openapi.Request](from.ask(from.a, "GET", path, ""), http.StatusOK), read[openapi.Request](to.ask(from.a, "GET", path, ""), http.StatusOK)
		if !reflect.DeepEqual(was.Model, is.Model) {
			t.Errorf("%s came back as %+v, was %+v", shapes[i], is.Model, was.Model)
		}
	}
}

// A server's export goes into another one, which is far larger than any other
// body; the caller's key stays and the document's keys work there.
func TestExportedAndImported(t *testing.T) {
	t.Parallel()
	from := setup(t)
	for i := range 120 {
		from.submit(from.a, "request-"+strings.Repeat("x", 40)+"-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	from.admit()
	doc := from.ask(from.admin, "GET", "/ledger/export", "").is(http.StatusOK)
	if len(doc.body) <= MaxBody || !strings.HasPrefix(doc.header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("an export of %d bytes, disposition %q", len(doc.body), doc.header.Get("Content-Disposition"))
	}
	to := setup(t, func(c *Config) {
		c.Restorer = &fakeRestorer{standstill: func() string { return "" }, take: into(c.Ledger.(*sqlledger.Ledger), c.Clock)}
	})
	done := read[openapi.LedgerImported](to.ask(to.admin, "POST", "/ledger/import", string(doc.body)), http.StatusOK)
	was, seq, err := from.ledger.Identity(t.Context())
	to.ok(err)
	if *done.Incarnation != was || done.JournalSeq != seq || *done.Reservations != 120 || *done.KeptKey == "" {
		t.Errorf("the answer is %+v", done)
	}
	if rep := read[openapi.VerifyReport](to.ask(to.admin, "GET", "/ledger/verify", ""), http.StatusOK); !rep.Clean || rep.Reservations != 120 {
		t.Errorf("verify says %+v", rep)
	}
	to.ask(from.a, "GET", "/requests", "").is(http.StatusOK)
	to.ask(to.a, "GET", "/requests", "").fails(http.StatusUnauthorized, "unauthorised")
	to.ask(to.admin, "POST", "/ledger/import", string(doc.body)).fails(http.StatusConflict, "conflict")
}

func TestSpoiledImports(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		c.Restorer = &fakeRestorer{standstill: func() string { return "" }, take: into(c.Ledger.(*sqlledger.Ledger), c.Clock)}
	})
	whole := string(b.ask(b.admin, "GET", "/ledger/export", "").is(http.StatusOK).body)
	for name, body := range map[string]string{
		"cut off": whole[:len(whole)-30], "nothing": "", "no JSON": "hello", "an empty object": "{}",
		"a decision not taken": `{"acceptOlder":false}`, "an unknown key": `{"acceptOlder":true,"force":true}`,
		"a broken sum": strings.Replace(whole, `"cap":8,"used":0`, `"cap":8,"used":1`, 1),
	} {
		if e := b.ask(b.admin, "POST", "/ledger/import", body).fails(http.StatusBadRequest, "invalid_request"); e.Message == "" {
			t.Errorf("%s: no message", name)
		}
	}
}

func TestAcceptingAnOlderLedger(t *testing.T) {
	t.Parallel()
	var said [2]string
	b := setup(t, func(c *Config) {
		c.Restorer = &fakeRestorer{
			standstill: func() string { return "it is older" },
			accept: func(who, why string) (Accepted, error) {
				said = [2]string{who, why}
				return Accepted{JournalSeq: 9, Differences: []delivery.Difference{{Ref: budget.Ref{Tenant: "team-a", ID: "x"}, Note: "gone"}}}, nil
			},
		}
	})
	done := read[openapi.LedgerImported](b.ask(b.admin, "POST", "/ledger/import", `{"acceptOlder":true,"why":"disk lost"}`), http.StatusOK)
	if done.JournalSeq != 9 || len(done.Restored) != 1 || done.Restored[0].Id != "x" || len(done.Dropped) != 0 {
		t.Errorf("the answer is %+v", done)
	}
	if !strings.HasPrefix(said[0], "admin ") || said[1] != "disk lost" {
		t.Errorf("accepted by %q because %q", said[0], said[1])
	}
	if rep := read[openapi.VerifyReport](b.ask(b.admin, "GET", "/ledger/verify", ""), http.StatusOK); rep.Older == nil || *rep.Older != "it is older. They are: object x of team-b" {
		t.Errorf("verify does not tell that the ledger is older: %+v", rep)
	}
	b.submit(b.a, "waits")
	if r := read[openapi.Request](b.ask(b.a, "GET", "/requests/waits", ""), http.StatusOK); !strings.Contains(*r.Message, "it is older") || strings.Contains(*r.Message, "team-b") {
		t.Errorf("the record's message is %q", *r.Message)
	}
	if doc := read[openapi.Evidence](b.ask(b.a, "GET", "/requests/waits/evidence", ""), http.StatusOK); doc.Message == nil || !strings.Contains(*doc.Message, "it is older") || strings.Contains(*doc.Message, "team-b") {
		t.Errorf("explain does not tell that the ledger is older: %+v", doc.Message)
	}
	conflict := setup(t, func(c *Config) {
		c.Restorer = &fakeRestorer{standstill: func() string { return "" }, accept: func(string, string) (Accepted, error) { return Accepted{}, Conflict("nothing to accept") }}
	})
	conflict.ask(conflict.admin, "POST", "/ledger/import", `{"acceptOlder":true}`).fails(http.StatusConflict, "conflict")
}

// brokenExport fails after its first rows.
type brokenExport struct{ *sqlledger.Ledger }

func (b brokenExport) Export(ctx context.Context, head func(budget.CopyHead) error, row func(budget.Row) error) error {
	if err := b.Ledger.Export(ctx, head, row); err != nil {
		return err
	}
	for range 2000 { // more than is buffered
		if err := row(budget.AuditEntry{Seq: 1, What: strings.Repeat("x", 100), When: time.Unix(1, 0)}); err != nil {
			return err
		}
	}
	return io.ErrUnexpectedEOF
}

// An export that fails on the way is cut, and never looks whole.
func TestBrokenExportIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Ledger = brokenExport{c.Ledger.(*sqlledger.Ledger)} })
	web := httptest.NewUnstartedServer(b.server.Handler())
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.Start()
	t.Cleanup(web.Close)
	r := b.request("GET", "/ledger/export", "")
	r.URL.Host = strings.TrimPrefix(web.URL, "http://")
	r.Header.Set("Authorization", "Bearer "+b.admin)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return // cut before its header was out
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a broken export ended as if it were whole: %d bytes, %q", len(body), bytes.TrimSpace(body[max(0, len(body)-40):]))
	}
}
