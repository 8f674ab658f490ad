// Package scenario holds user stories as functions over a small Harness: one
// body runs on one machine and on the cluster. Every story asserts what a
// user would check, by id and UID, over real HTTP, processes and databases.
package scenario

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"
)

// Harness is a running platform of a test's own.
type Harness interface {
	// API and Gateway are base URLs.
	API() string
	Gateway() string
	// Key returns the key of "admin", "team-a" or "team-b". Both teams start
	// with cap 2, the pool "default" with cap 8.
	Key(who string) string
	// Crash ends the control plane the hard way (kill -9); Start brings it
	// back on the same state and returns once it answers.
	Crash(t testing.TB)
	Start(t testing.TB)
	// Engines counts the living engine processes (or Pods) of a reservation.
	Engines(t testing.TB, tenant, id string) int
}

// Patience bounds every wait on a condition; it is generous because machines
// are shared, and costs nothing when things work.
const Patience = 45 * time.Second

// Caller acts with one key.
type Caller struct {
	t   testing.TB
	h   Harness
	who string
}

// As returns a caller with the key of who.
func As(t testing.TB, h Harness, who string) Caller { return Caller{t, h, who} }

// Answer is an HTTP answer, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the body into a map.
func (a Answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.Body, &m); err != nil {
		t.Fatalf("status %d, body is not a JSON object: %v: %.200s", a.Status, err, a.Body)
	}
	return m
}

// Error returns code, message and field of an error answer.
func (a Answer) Error(t testing.TB) (code, message, field string) {
	t.Helper()
	e, _ := a.JSON(t)["error"].(map[string]any)
	code, _ = e["code"].(string)
	message, _ = e["message"].(string)
	field, _ = e["field"].(string)
	if message == "" {
		t.Fatalf("status %d: the error has no message: %.200s", a.Status, a.Body)
	}
	return code, message, field
}

// Do sends body (a string as it is, anything else as JSON) to the management API.
func (c Caller) Do(method, path string, body any) Answer {
	c.t.Helper()
	a, err := c.try(method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (c Caller) try(method, path string, body any) (Answer, error) {
	var data []byte
	switch v := body.(type) {
	case nil:
	case string:
		data = []byte(v)
	default:
		var err error
		if data, err = json.Marshal(v); err != nil {
			return Answer{}, err
		}
	}
	r, err := http.NewRequest(method, c.h.API()+path, bytes.NewReader(data))
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.h.Key(c.who))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, out}, err
}

// Must is Do with the expected status.
func (c Caller) Must(status int, method, path string, body any) Answer {
	c.t.Helper()
	a := c.Do(method, path, body)
	if a.Status != status {
		c.t.Fatalf("%s %s as %s: status %d, want %d: %.400s", method, path, c.who, a.Status, status, a.Body)
	}
	return a
}

// Record is the part of a request's record that the stories look at.
type Record struct {
	ID                 string
	Tenant             string
	State              string
	Reason             string
	Message            string
	Cost, Held         int64
	Submits            int64
	Priority           int
	Revision           int64
	Generation         int64
	FundedReplicas     int
	CreatedAt          string
	ReleaseRequestedAt string
	ReadyReplicas      int
	EverReady          bool
	Object             struct{ Name, UID string }
}

// Get reads one's own record.
func (c Caller) Get(id string) Record {
	c.t.Helper()
	return record(c.t, c.Must(http.StatusOK, http.MethodGet, "/requests/"+id, nil))
}

func record(t testing.TB, a Answer) Record {
	t.Helper()
	var r Record
	if err := json.Unmarshal(a.Body, &r); err != nil {
		t.Fatalf("decode the record: %v: %.200s", err, a.Body)
	}
	return r
}

// Submit asks for a model; extra fields go into the body.
func (c Caller) Submit(id string, cost int, extra map[string]any) Record {
	c.t.Helper()
	body := map[string]any{"id": id, "cost": cost, "priority": 50}
	for k, v := range extra {
		body[k] = v
	}
	return record(c.t, c.Must(http.StatusAccepted, http.MethodPost, "/requests", body))
}

// Release asks for the end of a request.
func (c Caller) Release(id string) Record {
	c.t.Helper()
	return record(c.t, c.Must(http.StatusAccepted, http.MethodPost, "/requests/"+id+"/release", nil))
}

// Until waits until ok says so of the record and returns it.
func (c Caller) Until(id, what string, ok func(Record) bool) Record {
	c.t.Helper()
	var r Record
	Eventually(c.t, what+" of "+c.who+"/"+id, func() bool {
		r = c.Get(id)
		return ok(r)
	}, func() any { return r })
	return r
}

// Ready waits until a model answers.
func (c Caller) Ready(id string) Record {
	c.t.Helper()
	return c.Until(id, "readiness", func(r Record) bool { return r.State == "reserved" && r.ReadyReplicas > 0 })
}

// Released waits until the slots came back.
func (c Caller) Released(id string) Record {
	c.t.Helper()
	return c.Until(id, "release", func(r Record) bool { return r.State == "released" })
}

// Eventually waits on a condition; last is shown when the patience ends.
func Eventually(t testing.TB, what string, ok func() bool, last func() any) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; last seen: %+v", Patience, what, last())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Usage is cap and used of a tenant or pool.
type Usage struct{ Cap, Used int64 }

// Quota reads a tenant's figures.
func Quota(t testing.TB, h Harness, tenant string) Usage {
	t.Helper()
	var u Usage
	a := As(t, h, "admin").Must(http.StatusOK, http.MethodGet, "/tenants/"+tenant, nil)
	if err := json.Unmarshal(a.Body, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// VerifyClean recomputes the invariants and fails with what is broken.
func VerifyClean(t testing.TB, h Harness) {
	t.Helper()
	a := As(t, h, "admin").Must(http.StatusOK, http.MethodGet, "/ledger/verify", nil)
	if clean, _ := a.JSON(t)["clean"].(bool); !clean {
		t.Fatalf("the ledger is not clean: %s", a.Body)
	}
}

// Journal reads the ops of one request, oldest first, as "op slots".
func (c Caller) Journal(id string) []string {
	c.t.Helper()
	var list struct {
		Items []struct {
			Op    string
			Slots int64
		}
	}
	a := c.Must(http.StatusOK, http.MethodGet, "/requests/"+id+"/journal", nil)
	if err := json.Unmarshal(a.Body, &list); err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		out = append(out, e.Op+" "+jsonInt(e.Slots))
	}
	return out
}

func jsonInt(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// Evidence is the part of the evidence document that the stories look at.
type Evidence struct {
	Answers  struct{ BudgetSpentOnce, ModelStarted, FirstChunkDelivered *bool }
	BrokenAt *string
	Reason   string
	Message  string
	Steps    []struct {
		Seq                                  int
		Account, Step, Status, Reason, Found string
		Facts                                map[string]any
	}
}

// Explain reads the evidence of one's own request.
func (c Caller) Explain(id string) Evidence {
	c.t.Helper()
	var e Evidence
	a := c.Must(http.StatusOK, http.MethodGet, "/requests/"+id+"/evidence", nil)
	if err := json.Unmarshal(a.Body, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// Step returns one step of the document.
func (e Evidence) Step(t testing.TB, name string) (status string, facts map[string]any) {
	t.Helper()
	for _, s := range e.Steps {
		if s.Step == name {
			return s.Status, s.Facts
		}
	}
	t.Fatalf("the evidence has no step %s", name)
	return "", nil
}
