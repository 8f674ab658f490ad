package budget

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/modelspec"
)

// AuditEntry is one change made through the management API, or a person
// signing in.
type AuditEntry struct {
	Seq    int64
	Who    string // role and key id, or who did it without a key
	What   string // method and path
	When   time.Time
	Why    string
	Result string
	Tenant string // whose things were changed; empty: nobody's, or not known
	Source string // address of the caller; empty: not known
}

// ByTenant reports whether a tenant made the change: what tenants do never
// makes the audit forget what others did.
func (e AuditEntry) ByTenant() bool { return strings.HasPrefix(e.Who, string(RoleTenant)+" ") }

// Validate returns an error for an entry that is larger than any that is
// written.
func (e AuditEntry) Validate() error {
	for _, text := range []struct {
		field, value string
		most         int
	}{{"who", e.Who, MaxName}, {"what", e.What, maxAuditText}, {"why", e.Why, maxAuditText}, {"result", e.Result, maxAuditText}, {"source", e.Source, MaxName}} {
		if len(text.value) > text.most {
			return fmt.Errorf("its %s has %d bytes; at most %d are written", text.field, len(text.value), text.most)
		}
	}
	if e.Tenant == "" {
		return nil
	}
	return modelspec.CheckName("tenant", e.Tenant)
}

// imported begins the source of what a document brought.
const imported = "imported"

// maxAuditText bounds what an entry says was done, why, and what became of it:
// as much as a body of the management API has.
const maxAuditText = 64 << 10

// Imported is the entry as a document brings it: nobody here has seen that it
// was done, or from where.
func (e AuditEntry) Imported() AuditEntry {
	if e.Source != imported && !strings.HasPrefix(e.Source, imported+" ") {
		e.Source = strings.TrimSpace(imported + " " + e.Source)
	}
	e.Source = strings.ToValidUTF8(e.Source[:min(len(e.Source), MaxName)], "")
	return e
}

// AuditShare is how many entries each tenant may keep so that all tenants
// together keep at most so many: what is too much is taken from those that
// have the most. held are their numbers.
func AuditShare(held []int64, keep int64) int64 {
	held = slices.Sorted(slices.Values(held))
	for i, n := range held {
		share := keep / int64(len(held)-i)
		if n > share {
			return share
		}
		keep -= n
	}
	return math.MaxInt64 // there is room for all
}

// AuditStep bounds how many entries one page looks at, however few of them
// match: the audit is long, and its reader one of many.
const AuditStep = 10_000

// auditSkew is by how much the clocks of processes that write the audit may
// differ: beyond it, entries before an older one are older, too.
const auditSkew = time.Hour

// AuditQuery says which entries are wanted; what is empty excludes none.
type AuditQuery struct {
	Tenant string
	Actor  string    // a key's id, or all of Who
	Action string    // how What begins, for example "POST /requests"
	Since  time.Time // at it or later
	Until  time.Time // before it
	Before int64     // numbers below; 0: from the newest
	Limit  int       // entries of one page, at least 1
}

// AuditPage is a part of the answer, newest first.
type AuditPage struct {
	Entries []AuditEntry
	// Next is the Before of the next page, 0 after the last one. Between two
	// pages stands what was looked at, so that one may be empty and not the last.
	Next int64
}

// Reads is how many entries a page needs to see: one more than it may look at
// or show tells whether another page follows.
func (q AuditQuery) Reads() int {
	if q.all() {
		return min(q.Limit, AuditStep) + 1
	}
	return AuditStep + 1
}

func (q AuditQuery) all() bool {
	return q.Tenant == "" && q.Actor == "" && q.Action == "" && q.Since.IsZero() && q.Until.IsZero()
}

// Page picks from the newest Reads() entries below q.Before, newest first.
func (q AuditQuery) Page(rows []AuditEntry) AuditPage {
	var out AuditPage
	for i, e := range rows {
		if i == AuditStep || len(out.Entries) == q.Limit {
			out.Next = rows[i-1].Seq
			break
		}
		if !q.Since.IsZero() && e.When.Before(q.Since.Add(-auditSkew)) {
			break
		}
		if q.matches(e) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

func (q AuditQuery) matches(e AuditEntry) bool {
	switch {
	case q.Tenant != "" && e.Tenant != q.Tenant,
		q.Actor != "" && e.Who != q.Actor && !slices.Contains(strings.Fields(e.Who), q.Actor),
		!strings.HasPrefix(e.What, q.Action),
		!q.Since.IsZero() && e.When.Before(q.Since),
		!q.Until.IsZero() && !e.When.Before(q.Until):
		return false
	}
	return true
}
