package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stampFile lies beside a ledger of one machine: for each ledger, how far its
// journal had come when something was last delivered.
const stampFile = "ledger.stamp"

const checkAge = "age"

// age compares a ledger in a file with the stamp beside it: one that is older
// will stand still.
func age(l *look, ledger string, db known) {
	path := filepath.Join(filepath.Dir(ledger), stampFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // nothing was delivered yet
	}
	if err != nil {
		l.add(checkAge, Unknown, fmt.Sprintf("%s cannot be read: %v", path, err), "look with an account that may read it")
		return
	}
	var doc struct {
		Ledgers map[string]int64 `json:"ledgers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		l.add(checkAge, Broken, fmt.Sprintf("%s cannot be understood: %v; `modeldock up` refuses to start", path, err), "if the ledger is the newest, move the file away")
		return
	}
	seq, stamped := doc.Ledgers[db.incarnation]
	switch {
	case !stamped && len(doc.Ledgers) > 0:
		l.add(checkAge, Warning, fmt.Sprintf("deliveries were made here from %d other ledgers, and never from %s", len(doc.Ledgers), db.incarnation), "if another ledger.db belongs here, bring it back; a new ledger leaves the others' objects alone")
	case seq > db.journal:
		l.add(checkAge, Broken, fmt.Sprintf("the ledger's journal ends at %d and deliveries were made at %d: an older copy came back, and it will stand still", db.journal, seq), "see docs/backup.md; bring the newest copy back, or accept this one by `modeldock ledger import --accept-older`")
	case stamped:
		l.add(checkAge, OK, fmt.Sprintf("the journal ends at %d, deliveries at %d", db.journal, seq), "")
	}
}
