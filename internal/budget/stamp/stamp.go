// Package stamp reads and encodes the file beside a ledger of one machine that
// tells an older copy of it from the newest: for each ledger, how far its
// journal had come when something was last delivered.
package stamp

import (
	"encoding/json"
	"fmt"
	"os"
)

// File is its name in the data directory.
const File = "ledger.stamp"

const version = 1

type document struct {
	Version int              `json:"version"`
	Ledgers map[string]int64 `json:"ledgers"`
}

// Read returns the highest journal number by the ledger's incarnation. The
// error of a file that is not there is fs.ErrNotExist.
func Read(path string) (map[string]int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's stamp: %w", err)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the ledger's stamp %s: %w: it tells an older backup of the ledger from the newest; if the ledger is the newest, move the file away", path, err)
	}
	if doc.Version != version {
		return nil, fmt.Errorf("read the ledger's stamp %s: its format is version %d, this program knows %d: run the program that wrote it", path, doc.Version, version)
	}
	return doc.Ledgers, nil
}

// Encode is what Read reads.
func Encode(ledgers map[string]int64) ([]byte, error) {
	raw, err := json.MarshalIndent(document{version, ledgers}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the ledger's stamp: %w", err)
	}
	return append(raw, '\n'), nil
}
