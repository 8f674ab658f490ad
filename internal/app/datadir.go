package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dataDir is an exclusively held data directory.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates the directory (0700) and locks it until close; a second
// holder is refused with the first one's pid.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolve the data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return nil, fmt.Errorf("close the data directory to others: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		held, _ := os.ReadFile(lock.Name())
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another modeldock (pid %s): stop that one, or choose another --data-dir", path, strings.TrimSpace(string(held)))
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		return nil, fmt.Errorf("write the lock of the data directory: %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("write the lock of the data directory: %w", err)
	}
	return &dataDir{path: path, lock: lock}, nil
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) close() { _ = d.lock.Close() }

// ledgerFile is the ledger of one machine.
const ledgerFile = "ledger.db"

// keysFile is where the first keys are written for a person.
const keysFile = "keys.json"

func (d *dataDir) hasKeys() bool {
	_, err := os.Stat(d.file(keysFile))
	return err == nil
}

// keepOldKeys moves a keys.json that belongs to another ledger out of the way,
// so that changing the store back and forth loses nobody's keys.
func (d *dataDir) keepOldKeys(now time.Time) error {
	if !d.hasKeys() {
		return nil
	}
	if err := os.Rename(d.file(keysFile), d.file("keys-until-"+now.UTC().Format("20060102T150405Z")+".json")); err != nil {
		return fmt.Errorf("keep the keys of another ledger: %w", err)
	}
	return nil
}

// writeKeys writes keys.json (0600) atomically.
func (d *dataDir) writeKeys(keys map[string]string) error {
	data, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the keys: %w", err)
	}
	return replaceFile(d.file(keysFile), append(data, '\n'))
}

// replaceFile puts data under path in one step: readers see the old or the
// new content, also after a power cut.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
