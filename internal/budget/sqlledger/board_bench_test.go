package sqlledger_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// BenchmarkSubmitBesideManyWaiting is one submit and the reason in its answer,
// beside as many waiting requests as one tenant may have and more: each submit
// changes the queue, so that it is walked anew.
func BenchmarkSubmitBesideManyWaiting(b *testing.B) {
	const waiting = 7_700
	ctx := b.Context()
	l, err := sqlledger.OpenSQLite(ctx, filepath.Join(b.TempDir(), "ledger.db"), sqlledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	submit := func(i int) budget.Ref {
		s := request(fmt.Sprintf("team-%d", i%8), fmt.Sprintf("r%d", i), 1)
		if _, err := l.Submit(ctx, s); err != nil {
			b.Fatal(err)
		}
		return s.Ref
	}
	if _, err := l.SetPool(ctx, "default", 4); err != nil {
		b.Fatal(err)
	}
	for i := range 8 {
		if _, err := l.SetQuota(ctx, fmt.Sprintf("team-%d", i), 10); err != nil {
			b.Fatal(err)
		}
	}
	for i := range waiting {
		submit(i)
	}
	if _, err := l.Admit(ctx, 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := waiting; b.Loop(); i++ {
		if st, err := l.Standing(ctx, submit(i)); err != nil || st.Message == "" {
			b.Fatal(st, err)
		}
	}
}
