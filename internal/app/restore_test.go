package app

import (
	"encoding/json"
	"strings"
	"testing"
)

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
