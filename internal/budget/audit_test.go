package budget_test

import (
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

// One page looks at a bounded number of entries, however few of them match,
// and says where the next begins; what is older than asked for is not looked at.
func TestAuditPagesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := make([]budget.AuditEntry, budget.AuditStep+1)
	for i := range rows {
		rows[i] = budget.AuditEntry{Seq: int64(20_000 - i), Who: "tenant k", What: "POST /requests", When: now.Add(-time.Duration(i) * time.Minute)}
	}
	rare := budget.AuditQuery{Actor: "admin", Limit: 5}
	if page := rare.Page(rows); rare.Reads() != len(rows) || len(page.Entries) != 0 || page.Next != 20_000-budget.AuditStep+1 {
		t.Errorf("a page without a match reads %d and goes on with %d", rare.Reads(), page.Next)
	}
	if page := rare.Page(rows[:budget.AuditStep]); page.Next != 0 {
		t.Errorf("the last page goes on with %d", page.Next)
	}
	all := budget.AuditQuery{Limit: 5}
	if page := all.Page(rows[:all.Reads()]); all.Reads() != 6 || len(page.Entries) != 5 || page.Next != 19_996 {
		t.Errorf("a page of all reads %d and is %+v", all.Reads(), page)
	}
	since := budget.AuditQuery{Actor: "k", Since: now.Add(-90 * time.Second), Limit: 5}
	if page := since.Page(rows); len(page.Entries) != 2 || page.Next != 0 {
		t.Errorf("since a minute and a half ago: %d entries, and on with %d", len(page.Entries), page.Next)
	}
}
