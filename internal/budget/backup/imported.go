package backup

import (
	"iter"

	"modeldock.io/internal/budget"
)

// Imported are the rows of a document that somebody brings. What it says that
// was done nobody here has seen, so that its audit says so from then on.
func Imported(rows iter.Seq2[budget.Row, error]) iter.Seq2[budget.Row, error] {
	return func(yield func(budget.Row, error) bool) {
		for r, err := range rows {
			if e, ok := r.(budget.AuditEntry); ok {
				r = e.Imported()
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
