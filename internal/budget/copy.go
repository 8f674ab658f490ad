package budget

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// CopyHead identifies the ledger that a copy was made of.
type CopyHead struct {
	Incarnation string
	JournalSeq  int64 // highest number that its journal gave out
	At          time.Time
}

// Row is one row of a copy: a Tenant, Pool, Reservation, Entry, Intent,
// Binding, APIKey, Grant or AuditEntry, or what another account keeps in the
// same database. Rows of a kind stand together and in this order, within a
// kind by number or by name: whoever writes them in this order never refers
// to a row that is not there yet.
type Row any

// Copying writes whole ledgers out and in.
type Copying interface {
	// Export reads one snapshot: the head first, then every row but sessions
	// and single inference records. It holds a page of a kind in memory, not
	// the ledger, and ends with the first error of the two functions.
	Export(ctx context.Context, head func(CopyHead) error, row func(Row) error) error
	// Import takes a copy in, wholly or not at all. The ledger must hold no
	// reservation and no journal entry: *NotEmptyError; its pools, tenants,
	// keys, grants, sessions and audit are replaced by the copy's. The key
	// named keep stays, also where the copy does not have it. A copy that
	// breaks an invariant, or has a row that the store cannot hold, is refused:
	// *CopyRefusedError. rows may be ranged over more than once.
	Import(ctx context.Context, head CopyHead, rows iter.Seq2[Row, error], keep string) error
	// LiftJournal makes the journal go on above seq, so that numbers which a
	// lost ledger gave out are never given out again. It never lowers.
	LiftJournal(ctx context.Context, seq int64) error
}

// NotEmptyError says that a ledger holds what an import would have to mix with.
type NotEmptyError struct{ Reservations, Entries int64 }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("this ledger holds %d requests and %d journal entries, and a copy goes only into one that holds none: start ModelDock with an empty data directory (or an empty database) and import there", e.Reservations, e.Entries)
}

// CopyRefusedError says which rows of a copy break an invariant, or cannot be
// stored. Nothing was changed.
type CopyRefusedError struct{ Violations []Violation }

// named bounds how many rows a message names.
const named = 5

func (e *CopyRefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the copy is refused, %d of its rows or sums are not right:", len(e.Violations))
	for i, v := range e.Violations {
		if i == named {
			fmt.Fprintf(&b, " and %d more;", len(e.Violations)-named)
			break
		}
		fmt.Fprintf(&b, " %s %s (%s);", v.Subject, v.Message, v.Invariant)
	}
	b.WriteString(" nothing was changed; export again from the ledger that it came from")
	return b.String()
}
