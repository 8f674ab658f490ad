package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"modeldock.io/internal/budget/stamp"
)

const checkAge = "age"

// age compares a ledger in a file with the stamp beside it: one that is older
// will stand still.
func age(ctx context.Context, l *look, ledger string, db known) {
	path := filepath.Join(filepath.Dir(ledger), stamp.File)
	ledgers, err := stamp.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // nothing was delivered yet
	case errors.Is(err, fs.ErrPermission):
		l.add(checkAge, Unknown, err.Error(), "look with an account that may read it")
		return
	case err != nil:
		l.add(checkAge, Broken, err.Error()+"; `modeldock up` refuses to start", "if the ledger is the newest, move the file away")
		return
	}
	seq, stamped := ledgers[db.incarnation]
	end := db.end(ctx, seq)
	switch {
	case !stamped && len(ledgers) > 0:
		l.add(checkAge, Warning, fmt.Sprintf("deliveries were made here from %d other ledgers, and never from %s", len(ledgers), db.incarnation), "if another ledger.db belongs here, bring it back; a new ledger leaves the others' objects alone")
	case seq > end:
		l.add(checkAge, Broken, fmt.Sprintf("the ledger's journal ends at %d and deliveries were made at %d: an older copy came back, and it will stand still", end, seq), "see docs/backup.md; bring the newest copy back, or accept this one by `modeldock ledger import --accept-older`")
	case stamped:
		l.add(checkAge, OK, fmt.Sprintf("the journal ends at %d, deliveries at %d", end, seq), "")
	}
}
