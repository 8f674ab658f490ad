package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A copy with a request that no submit takes is refused with its row, and this
// ledger goes on as it was.
func TestCopiesWithImpossibleRequestsAreRefused(t *testing.T) {
	t.Parallel()
	from, to := up(t, func(o *UpOptions) { o.Manual = true }), up(t, nil)
	if status, _, body := from.ask("team-a", "POST", "/requests", `{"id":"m1","cost":1,"priority":50}`); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	_, _, doc := from.ask("admin", "GET", "/ledger/export", "")
	for old, c := range map[string]struct{ spoiled, says string }{
		`"gpus":1`:          {`"gpus":0`, "request team-a/m1 cannot be: model.gpus must be an integer from 1 to 64; got 0"},
		`"min":1,"max":1`:   {`"min":200000000,"max":200000000`, "request team-a/m1 cannot be: model.replicas.min must be an integer from 0 to 1000; got 200000000"},
		`"id":"m1","revisi`: {`"id":"a/b","revisi`, "request team-a/a/b cannot be: id must be"},
	} {
		spoiled := strings.Replace(doc, old, c.spoiled, 1)
		if spoiled == doc {
			t.Fatalf("no %s in %s", old, doc)
		}
		status, _, body := to.ask("admin", "POST", "/ledger/import", spoiled)
		if status < 400 || status > 499 || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s", c.spoiled, status, body)
		}
	}
	if status, _, body := to.ask("team-a", "POST", "/requests", `{"id":"m1","cost":1,"priority":50}`); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _, body := to.ask("admin", "GET", "/readyz", ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // the machine tells whether it can plan
		_, _, body := to.ask("admin", "GET", "/diagnostics", "")
		if strings.Contains(body, `"name":"placement"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("planning is no part of the health: %s", body)
		}
	}
}

// What an imported document says that was done is told from what was done
// here, and the import says how much of it there is.
func TestImportedAuditIsMarked(t *testing.T) {
	t.Parallel()
	from, to := up(t, func(o *UpOptions) { o.Manual = true }), up(t, func(o *UpOptions) { o.Manual = true })
	if status, _, body := from.ask("admin", "PUT", "/tenants/team-a/quota", `{"cap":3}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	_, _, doc := from.ask("admin", "GET", "/ledger/export", "")
	forged := strings.Replace(doc, `PUT /tenants/team-a/quota`, `PUT /tenants/team-b/quota`, 1)
	if forged == doc {
		t.Fatalf("the document has no audit: %s", doc)
	}
	if status, _, body := to.ask("admin", "POST", "/ledger/import", forged); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	_, _, body := to.ask("admin", "GET", "/audit", "")
	var page struct {
		Items []struct{ Action, Source string } `json:"items"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	brought := 0
	for _, e := range page.Items {
		switch {
		case strings.HasPrefix(e.Action, "POST /ledger/import"):
			if e.Source != "127.0.0.1" || !strings.Contains(e.Action, "audit rows from before: 1") {
				t.Errorf("the import is %+v", e)
			}
		case e.Source != "imported 127.0.0.1":
			t.Errorf("%+v is not marked", e)
		default:
			brought++
		}
	}
	if brought == 0 || len(page.Items) != brought+1 {
		t.Errorf("the audit is %s", body)
	}
}
