package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// record is what the machine holds for one cluster. It is written before the
// thing itself is made, so that a later Start can free what a cluster whose
// process was killed left behind.
type record struct {
	ID         string             `json:"id"`
	Dir        string             `json:"dir"`
	Temporary  bool               `json:"temporary,omitempty"` // Dir goes with the cluster
	Owner      process            `json:"owner"`
	Block      int                `json:"block"`            // which addresses; see network.go
	Bridge     string             `json:"bridge,omitempty"` // network device
	Cgroups    []string           `json:"cgroups,omitempty"`
	MadeDirs   []string           `json:"madeDirs,omitempty"` // outside Dir, empty on this machine
	Sysctls    map[string]string  `json:"sysctls,omitempty"`  // as they were before
	Components map[string]process `json:"components"`
}

// process names one process for good: numbers are used again.
type process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // clock ticks since the machine's start
}

func processOf(pid int) process { return process{PID: pid, Started: startTicks(pid)} }

func (p process) alive() bool {
	return p.PID > 0 && p.Started != "" && startTicks(p.PID) == p.Started
}

// startTicks is empty for a process that is gone or a zombie.
func startTicks(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may contain anything; what counts follows it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// registry holds the records of all clusters of this machine (or, where they
// are not root's, of this user).
type registry struct{ dir string }

func openRegistry() (registry, error) {
	dir := "/run/modeldock-cluster"
	if os.Getuid() != 0 {
		dir = filepath.Join(os.TempDir(), "modeldock-cluster-"+strconv.Itoa(os.Getuid()))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return registry{}, fmt.Errorf("make the folder of cluster records: %w", err)
	}
	return registry{dir}, nil
}

// locked runs f while no other cluster is being set up or taken down.
func (r registry) locked(f func() error) error {
	lock, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of cluster records: %w", err)
	}
	defer func() { _ = lock.Close() }() // which releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the cluster records: %w", err)
	}
	return f()
}

func (r registry) path(id string) string { return filepath.Join(r.dir, id+".json") }

func (r registry) write(rec *record) error {
	content, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode a cluster's record: %w", err)
	}
	unfinished := r.path(rec.ID) + ".new"
	if err := os.WriteFile(unfinished, content, 0o600); err != nil {
		return fmt.Errorf("write a cluster's record: %w", err)
	}
	if err := os.Rename(unfinished, r.path(rec.ID)); err != nil {
		return fmt.Errorf("put a cluster's record in place: %w", err)
	}
	return nil
}

func (r registry) remove(rec *record) error {
	if err := os.Remove(r.path(rec.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a cluster's record: %w", err)
	}
	return nil
}

func (r registry) all() ([]*record, error) {
	names, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list cluster records: %w", err)
	}
	slices.Sort(names)
	var records []*record
	for _, name := range names {
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its cluster has just stopped
		}
		if err != nil {
			return nil, fmt.Errorf("read a cluster's record: %w", err)
		}
		rec := &record{}
		if err := json.Unmarshal(content, rec); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove it if no cluster runs", name, err)
		}
		records = append(records, rec)
	}
	return records, nil
}
