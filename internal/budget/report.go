package budget

import "time"

// Violation is one row, or one sum, that breaks an invariant.
type Violation struct {
	Invariant string // "INV1" … "INV6"
	Subject   string // "tenant team-a", "request team-a/demo", …
	Message   string // with both figures
}

// Report is the result of recomputing every invariant from the rows.
type Report struct {
	At           time.Time
	Tenants      int
	Pools        int
	Reservations int
	Entries      int
	Violations   []Violation
}

// Clean reports whether every invariant holds.
func (r Report) Clean() bool { return len(r.Violations) == 0 }
