package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"modeldock.io/internal/budget/stamp"
)

// stamps keep, outside of the ledger's database, the highest journal number
// that was there when something was last delivered: by the ledger's
// incarnation, because another database may come and go. They never fall.
type stamps struct {
	path string

	mu     sync.Mutex
	ledger map[string]int64 // as in the file
}

// openStamps reads the file, which need not be there yet.
func openStamps(dir *dataDir) (*stamps, error) {
	s := &stamps{path: dir.file(stamp.File), ledger: map[string]int64{}}
	ledgers, err := stamp.Read(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	maps.Copy(s.ledger, ledgers)
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
	raw, err := stamp.Encode(next)
	if err != nil {
		return err
	}
	if err := replaceFile(s.path, raw); err != nil {
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
