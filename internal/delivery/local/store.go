package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// errExists: a file of this name is there already.
var errExists = errors.New("exists")

// objectStore keeps records as one JSON file each.
type objectStore struct{ dir string }

func openObjects(dir string) (*objectStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the objects directory: %w", err)
	}
	return &objectStore{dir}, nil
}

func (s *objectStore) path(name string) string { return filepath.Join(s.dir, name+".json") }

// Load reads every record. A file that cannot be read as one is returned as
// an empty record, so that its name counts as taken.
func (s *objectStore) Load() (map[string]record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read the objects directory: %w", err)
	}
	out := map[string]record{}
	for _, e := range entries {
		name, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord || strings.HasPrefix(name, ".") {
			continue // a temporary file of a write that was cut off
		}
		rec, err := s.Read(name)
		if err != nil && !errors.Is(err, errUnreadable) {
			return nil, err
		}
		out[name] = rec
	}
	return out, nil
}

// errUnreadable: the file is there but is no record.
var errUnreadable = errors.New("not a record of an object")

// Read returns fs.ErrNotExist, or errUnreadable with an empty record.
func (s *objectStore) Read(name string) (record, error) {
	raw, err := os.ReadFile(s.path(name))
	if err != nil {
		return record{}, fmt.Errorf("read object %s: %w", name, err)
	}
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		return record{}, fmt.Errorf("read object %s: %w: %w", name, errUnreadable, err)
	}
	return rec, nil
}

// Has reports whether a file of this name is there; where that cannot be
// seen, it is taken to be.
func (s *objectStore) Has(name string) bool {
	_, err := os.Lstat(s.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Create writes a new record and never over an existing file: errExists.
func (s *objectStore) Create(rec record) error {
	err := writeAtomically(s.path(rec.Name), rec, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return errExists
	}
	return err
}

// Save replaces a record.
func (s *objectStore) Save(rec record) error {
	return writeAtomically(s.path(rec.Name), rec, os.Rename)
}

// Remove deletes a record, durably.
func (s *objectStore) Remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove object %s: %w", name, err)
	}
	return syncDir(s.dir)
}

// writeAtomically writes v beside path, flushes it and puts it in place.
func writeAtomically(path string, v any, place func(from, to string) error) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // already gone after a rename
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := place(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return syncDir(dir)
}

// syncDir makes names in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush %s: %w", dir, err)
	}
	return nil
}

// lockDir makes sure that one target at a time uses the directory. The lock
// ends with the process, however it ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "local.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.Name())
		_ = f.Close()
		return nil, fmt.Errorf("lock the data directory %s: another modeldock (pid %s) uses it; stop that one, or choose another directory: %w", dir, strings.TrimSpace(string(holder)), err)
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above only
	return f, nil
}
