package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/delivery/local/supervise"
)

// runStore remembers which processes were started, so that a later run of
// ModelDock finds those that an earlier one left behind.
type runStore struct {
	dir      string
	identity string // of the data directory on this machine
	boot     string
}

// runFile is one started process on disk.
type runFile struct {
	Version    int       `json:"version"`
	RunID      string    `json:"runID"`
	Object     string    `json:"object"`
	Boot       string    `json:"boot"`
	Supervisor processID `json:"supervisor"`
	Model      processID `json:"model"`
}

// processID names a process for as long as the machine runs.
type processID struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
}

// openIdentity names a data directory: a random id kept in it, together with
// the directory's own inode, so that a copy is somebody else.
func openIdentity(dataDir string) (string, error) {
	path := filepath.Join(dataDir, "instance")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		raw = []byte(newUID())
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("identify the data directory: %w", err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dataDir, &st); err != nil {
		return "", fmt.Errorf("identify the data directory: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", strings.TrimSpace(string(raw)), st.Dev, st.Ino))
	return hex.EncodeToString(sum[:])[:16], nil
}

func openRuns(dir, identity string) (*runStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runs directory: %w", err)
	}
	boot, err := procfs.BootID()
	return &runStore{dir: dir, identity: identity, boot: boot}, err
}

// ID is the run id of a replica; it begins with the data directory's identity.
func (s *runStore) ID(uid string) string { return s.identity + "." + uid }

func (s *runStore) path(uid string) string { return filepath.Join(s.dir, uid+".json") }

// Remember records a started process.
func (s *runStore) Remember(uid, object string, p *supervise.Process) error {
	return writeAtomically(s.path(uid), runFile{
		Version: 1, RunID: s.ID(uid), Object: object, Boot: s.boot,
		Supervisor: processID{p.PID, p.StartTicks}, Model: processID{p.Model.PID, p.Model.StartTicks},
	}, os.Rename)
}

// Forget drops the record of a process that is gone. A record too many does
// no harm: it matches nobody.
func (s *runStore) Forget(uid string) { _ = os.Remove(s.path(uid)) }

// load reads the records of this boot; others name nobody any more.
func (s *runStore) load(log *slog.Logger) map[processID]bool {
	known := map[processID]bool{}
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return known
	}
	for _, f := range files {
		var r runFile
		raw, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			log.Warn("cannot read the record of an earlier process; it is looked for by its environment", "file", f, "err", err)
			continue
		}
		if r.Boot == s.boot && strings.HasPrefix(r.RunID, s.identity+".") {
			known[r.Supervisor], known[r.Model] = true, true
		}
	}
	return known
}

// clear drops all records, once nothing of them runs.
func (s *runStore) clear() {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return
	}
	for _, f := range files {
		_ = os.Remove(f) // see Forget
	}
}
