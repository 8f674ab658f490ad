// Package procfs reads Linux's /proc for the local target: who runs, whose
// child it is, since when, and who listens on a port. It only reads; nobody is
// signalled here.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const root = "/proc"

// Process is one line of the process table. PID and StartTicks together name
// a process for as long as the machine runs: a pid that is used again has
// another start.
type Process struct {
	PID        int
	PPID       int
	PGID       int
	State      byte   // 'R', 'S', 'D', 'Z', …
	StartTicks uint64 // clock ticks since boot
}

// Zombie reports whether the process has ended and only waits to be reaped:
// it holds neither memory nor ports.
func (p Process) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

// Stat reads one process; fs.ErrNotExist if it is gone.
func Stat(pid int) (Process, error) {
	raw, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", root, pid))
	if err != nil {
		return Process{}, gone(err)
	}
	return parseStat(raw)
}

// Table reads the whole process table.
func Table() (map[int]Process, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	table := make(map[int]Process, len(pids))
	for _, pid := range pids {
		p, err := Stat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended while we looked
		}
		if err != nil {
			return nil, err
		}
		table[pid] = p
	}
	return table, nil
}

// Descendants returns the living processes below pid, without pid itself.
func Descendants(table map[int]Process, pid int) []int {
	children := make(map[int][]int, len(table))
	for _, p := range table {
		children[p.PPID] = append(children[p.PPID], p.PID)
	}
	var out []int
	seen := map[int]bool{pid: true}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			if seen[c] {
				continue
			}
			seen[c] = true
			next = append(next, c)
			if !table[c].Zombie() {
				out = append(out, c)
			}
		}
	}
	return out
}

// Env returns one variable of a process's environment. A process that is
// gone, or whose environment may not be read, has none.
func Env(pid int, key string) string {
	raw, err := os.ReadFile(fmt.Sprintf("%s/%d/environ", root, pid))
	if err != nil {
		return ""
	}
	prefix := []byte(key + "=")
	for entry := range bytes.SplitSeq(raw, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, prefix); ok {
			return string(v)
		}
	}
	return ""
}

// BootID names this run of the kernel; pids and start ticks mean something
// only within one.
func BootID() (string, error) {
	raw, err := os.ReadFile(root + "/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func pids() ([]int, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	out := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// parseStat reads /proc/PID/stat. The command stands in parentheses and may
// itself contain both spaces and parentheses, so fields count from the last one.
func parseStat(raw []byte) (Process, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("parse process stat: no command in %q", raw)
	}
	f := strings.Fields(string(raw[end+1:]))
	if len(f) < 20 {
		return Process{}, fmt.Errorf("parse process stat: %d fields after the command, want at least 20", len(f))
	}
	p := Process{State: f[0][0]}
	var errs [4]error
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	p.PPID, errs[1] = strconv.Atoi(f[1])
	p.PGID, errs[2] = strconv.Atoi(f[2])
	p.StartTicks, errs[3] = strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return Process{}, fmt.Errorf("parse process stat: %w", err)
	}
	return p, nil
}

// gone makes ESRCH, which a read of a process that just ended gives, look
// like the missing file that it is.
func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fs.ErrNotExist
	}
	return err
}
