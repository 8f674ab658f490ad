package api

import (
	"bytes"
	"context"
	"encoding/json"

	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
)

// operation is one line of the description.
type operation struct {
	method, route string
	body          bool     // it takes one
	query         []string // its parameters there
}

func (o operation) String() string { return o.method + " " + o.route }

// operations are all that the description has, so that a new one is tried
// without anybody thinking of it.
func (d description) operations() []operation {
	var all []operation
	for route, methods := range d["paths"].(map[string]any) {
		shared, _ := methods.(map[string]any)["parameters"].([]any)
		for method, op := range methods.(map[string]any) {
			if method == "parameters" {
				continue
			}
			o := operation{method: strings.ToUpper(method), route: route, body: at(op, "requestBody") != nil}
			own, _ := at(op, "parameters").([]any)
			for _, p := range append(slices.Clone(shared), own...) {
				if r := d.resolve(p); r["in"] == "query" {
					o.query = append(o.query, r["name"].(string))
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// filled names things in the path; a parameter that nobody knows is a new one.
func (o operation) filled(t *testing.T, with map[string]string) string {
	t.Helper()
	path := o.route
	for {
		from := strings.IndexByte(path, '{')
		if from < 0 {
			return path
		}
		to := strings.IndexByte(path, '}')
		name := path[from+1 : to]
		value, ok := with[name]
		if !ok {
			t.Fatalf("%s has the parameter %s: say here what of another tenant it names", o, name)
		}
		path = path[:from] + url.PathEscape(value) + path[to+1:]
	}
}

// rightBody is what a right use of it would send.
func (o operation) rightBody() string {
	for _, c := range calls() {
		if c.method == o.method && c.route == o.route {
			return c.body
		}
	}
	return "{}"
}

// planted is in everything of team-a that its neighbours may not see.
const planted = "zq7planted"

// victim gives team-a a life whose facts are recognisable.
func victim(b *bundle) (keyID string) {
	b.Helper()
	_, err := b.ledger.SetEngines(b.Context(), "team-a", []string{"custom", "env", "args", "hf://" + planted + "/"})
	b.ok(err)
	body := `{"id":"one","cost":1,"priority":50,"model":{"name":"` + planted + `-model","version":"` + planted + `","engine":"custom","command":["` + planted + `"],"source":"hf://` + planted + `/x","args":["--` + planted + `"],"env":{"TOKEN":"` + planted + `"}}}`
	b.ask(b.a, "POST", "/requests", body).is(202)
	b.submit(b.a, planted+"-two")
	b.admit()
	b.bind()
	now := b.now()
	b.ok(b.ledger.PutInferences(b.Context(), []traffic.Inference{{
		RequestID: "i1", Tenant: "team-a", KeyID: planted, Owner: "team-a", Model: planted + "-model", Version: planted, ReservationID: "one", Path: "/v1/chat/completions",
		Status: 200, Outcome: traffic.Completed, ReceivedAt: now, SentAt: now, FirstByteAt: now, FirstContentAt: now, DoneAt: now,
	}}))
	_, granted := b.ledger.PutGrant(b.Context(), budget.Grant{Owner: "team-a", Model: planted + "-model", Grantee: "team-" + planted, At: now}, false)
	b.ok(granted)
	b.target.logs = func(_ context.Context, _ string, _ int, _ bool) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(planted)), nil
	}
	keyID, _, _ = strings.Cut(strings.TrimPrefix(b.a, "mdk_"), "_")
	return keyID
}

// state is all that an admin sees of team-a.
func (b *bundle) state() string {
	b.Helper()
	var all bytes.Buffer
	for _, path := range []string{"/requests?tenant=team-a", "/requests/one/journal?tenant=team-a", "/tenants/team-a", "/grants", "/pools", "/models"} {
		all.Write(b.ask(b.admin, "GET", path, "").is(200).body)
	}
	return all.String()
}

// Every operation of the description, called by another tenant with the names
// of team-a's things: none shows a fact of team-a, none changes one.
func TestNoOperationOpensAnotherTenant(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	keyID := victim(b)
	before := b.state()
	if !strings.Contains(before, planted) {
		t.Fatal("an admin does not see what was planted, so nobody else's not seeing it says anything")
	}
	names := map[string]string{
		"id": "one", "requestId": "i1", "tenant": "team-a", "pool": "default", "keyId": keyID,
		"owner": "team-a", "model": planted + "-model", "name": planted + "-model", "grantee": "team-c", // not the stranger, who may give up its own
	}
	for _, o := range readDescription(t).operations() {
		if o.String() == "GET /events" || strings.HasSuffix(o.route, "/session") { // TestEventsAreForTheirTenant; sessions belong to their cookie
			continue
		}
		path := o.filled(t, names)
		for _, query := range []string{"", "?tenant=team-a", "?tenant=team-a&state=reserved&limit=500", "?tenant=team-b&tenant=team-a"} {
			for _, body := range slices.Compact([]string{"", "{}", o.rightBody(), `{"tenant":"team-a","id":"one","cost":1,"priority":1}`}) {
				a := b.ask(b.b, o.method, path+query, body)
				// A name that the caller said itself may come back.
				said := strings.ReplaceAll(string(a.body), planted+"-model", "")
				if strings.Contains(said, planted) || (strings.Contains(string(a.body), planted) && !strings.Contains(path, planted)) {
					t.Errorf("%s shows what is team-a's: %.300s", a.what, a.body)
				}
				if strings.Contains(o.route, "{") && a.status < 400 {
					t.Errorf("%s answered %d to a stranger: %.300s", a.what, a.status, a.body)
				}
			}
		}
	}
	if after := b.state(); after != before {
		t.Errorf("a stranger changed\n%s\nto\n%s", before, after)
	}
	b.ask(b.a, "GET", "/requests/one", "").is(200) // its key lives
}

// Every operation with everything too large: refused, never a failure of ours,
// and never echoed at length.
func TestEveryOperationBoundsWhatItTakes(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	story(b)
	right := map[string]string{
		"id": "one", "requestId": "i1", "tenant": "team-a", "pool": "default", "keyId": "nobody",
		"owner": "team-a", "model": "one", "name": "one", "grantee": "team-b",
	}
	const long = 60_000
	filters := map[string]bool{"reason": true, "model": true, "tenant": true, "after": true, "topics": true, "replica": true} // nothing fits them
	huge := map[string]string{}
	for name := range right {
		huge[name] = strings.Repeat("x", long)
	}
	check := func(a answer, refused bool) {
		t.Helper()
		if a.status >= 500 || (refused && a.status < 400) || len(a.body) > 8_000 && a.status >= 400 {
			t.Errorf("%.80s answered %d with %d bytes: %.200s", a.what, a.status, len(a.body), a.body)
		}
	}
	for _, o := range readDescription(t).operations() {
		if o.String() == "GET /events" || o.String() == "GET /ledger/export" { // they answer at length, and take nothing but topics
			continue
		}
		if path := o.filled(t, huge); path != o.route {
			check(b.ask(b.admin, o.method, path, o.rightBody()), o.method != "DELETE" || !strings.Contains(o.route, "grants"))
		}
		for _, q := range o.query {
			check(b.ask(b.admin, o.method, o.filled(t, right)+"?"+q+"="+strings.Repeat("9", long), o.rightBody()), !filters[q])
		}
		if !o.body {
			continue
		}
		for what, body := range map[string]string{
			"a long body":  `{"x":"` + strings.Repeat("x", MaxBody) + `"}`,
			"a deep body":  strings.Repeat("[", long),
			"a wide body":  `{` + strings.Repeat(`"x":1,`, long) + `"x":1}`,
			"a long digit": `{"cap":` + strings.Repeat("9", long) + `}`,
		} {
			if o.route == "/ledger/import" {
				continue // its limit is its own: TestBodies
			}
			a := b.ask(b.admin, o.method, o.filled(t, right), body)
			a.what += " with " + what
			check(a, !strings.HasSuffix(o.route, "/release"))
		}
	}
}

// Every operation that changes something leaves a row that names who did it;
// those that do not say why.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	unaudited := map[string]string{
		"POST /nodes/fit": "asks", "POST /simulate": "asks", "POST /session": "needs a key: TestSessionsAreAudited", "DELETE /session": "needs a session: the same",
	}
	for _, o := range readDescription(t).operations() {
		if o.method == "GET" || unaudited[o.String()] != "" {
			continue
		}
		tried := slices.IndexFunc(calls(), func(c call) bool { return c.method == o.method && c.route == o.route })
		if tried < 0 {
			t.Errorf("%s has no right use among calls", o)
			continue
		}
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t, manual)
			story(b)
			c := calls()[tried]
			if strings.HasPrefix(c.path, "/grants/") && c.method == "DELETE" { // one that is not there changes nothing
				b.ask(b.admin, "PUT", c.path, "").is(200)
			}
			before := len(b.audits())
			b.ask(b.admin, c.method, c.path, c.body)
			rows := b.audits()
			if len(rows) <= before {
				t.Fatalf("%s left no audit row", o)
			}
			admin, _, _ := strings.Cut(strings.TrimPrefix(b.admin, "mdk_"), "_")
			if !slices.ContainsFunc(rows, func(e budget.AuditEntry) bool {
				return e.Who == "admin "+admin && strings.Contains(e.What, c.method+" "+c.path) && e.Result != "" && !e.When.IsZero()
			}) {
				text, _ := json.Marshal(rows)
				t.Errorf("no row names %s by %s: %s", c.path, admin, text)
			}
		})
	}
}
