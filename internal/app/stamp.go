package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// stampFileName is the stamps' file in the data directory.
const stampFileName = "ledger.stamp"

const stampVersion = 1

// stamps keep, outside of the ledger's database, the highest journal number
// that was there when something was last delivered: by the ledger's
// incarnation, because another database may come and go. They never fall.
type stamps struct {
	path string

	mu     sync.Mutex
	ledger map[string]int64 // as in the file
}

type stampDocument struct {
	Version int              `json:"version"`
	Ledgers map[string]int64 `json:"ledgers"`
}

// openStamps reads the file, which need not be there yet.
func openStamps(dir *dataDir) (*stamps, error) {
	s := &stamps{path: dir.file(stampFileName), ledger: map[string]int64{}}
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger's stamp: %w", err)
	}
	var doc stampDocument
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the ledger's stamp %s: %w: it tells an older backup of the ledger from the newest; if the ledger is the newest, move the file away", s.path, err)
	}
	if doc.Version != stampVersion {
		return nil, fmt.Errorf("read the ledger's stamp %s: its format is version %d, this program knows %d: run the program that wrote it", s.path, doc.Version, stampVersion)
	}
	maps.Copy(s.ledger, doc.Ledgers)
	return s, nil
}

// of is the number stamped for an incarnation, 0 if there is none.
func (s *stamps) of(incarnation string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger[incarnation]
}

func (s *stamps) read(_ context.Context, incarnation string) (int64, error) {
	return s.of(incarnation), nil
}

// others are the incarnations of other ledgers that were stamped here.
func (s *stamps) others(incarnation string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.ledger)), func(i string) bool { return i == incarnation })
}

// raise makes seq durable before it returns, unless as much is there already.
func (s *stamps) raise(_ context.Context, incarnation string, seq int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, known := s.ledger[incarnation]; known && have >= seq {
		return nil
	}
	next := maps.Clone(s.ledger)
	next[incarnation] = seq
	raw, err := json.MarshalIndent(stampDocument{stampVersion, next}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the ledger's stamp: %w", err)
	}
	if err := replaceFile(s.path, append(raw, '\n')); err != nil {
		return err
	}
	if err := syncFolder(filepath.Dir(s.path)); err != nil {
		return err
	}
	s.ledger = next
	return nil
}

// syncFolder makes a rename in it survive a power cut.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	return nil
}
