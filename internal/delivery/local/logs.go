package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

const (
	followEvery = 200 * time.Millisecond
	// keepGoneLogs is how many deleted objects' logs stay readable.
	keepGoneLogs = 100
)

func (t *Target) logPath(object string, index int) string {
	return filepath.Join(t.cfg.DataDir, "logs", object, replicaName(object, index)+".log")
}

// Logs returns the engine's output of one replica (empty: the first), also
// after it ended: the last tail lines (0: all that is kept of the current
// file), and with follow everything that is written until ctx ends.
// budget.ErrNotFound if there is none.
func (t *Target) Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	object := delivery.ObjectName(ref)
	dir := filepath.Join(t.cfg.DataDir, "logs", object)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the logs of %s: %w", object, err)
	}
	var names []string
	for _, e := range entries {
		if name, isLog := cutLog(e.Name()); isLog {
			names = append(names, name)
		}
	}
	if replica == "" && len(names) > 0 {
		replica = slices.Min(names)
	}
	if !slices.Contains(names, replica) { // the name is matched, never joined unseen
		return nil, fmt.Errorf("logs of replica %q of request %s: %w; replicas with logs: %v", replica, ref.ID, budget.ErrNotFound, names)
	}
	f, err := os.Open(filepath.Join(dir, replica+".log"))
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", replica, err)
	}
	if err := seekTail(f, tail); err != nil {
		return nil, errors.Join(fmt.Errorf("read the log of %s: %w", replica, err), f.Close())
	}
	if !follow {
		return f, nil
	}
	return &follower{ctx: ctx, file: f}, nil
}

func cutLog(name string) (string, bool) {
	base := len(name) - len(".log")
	if base <= 0 || name[base:] != ".log" {
		return "", false
	}
	return name[:base], true
}

// seekTail moves f to the start of its last n lines.
func seekTail(f *os.File, n int) error {
	if n <= 0 {
		return nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	lines, pos := 0, end
	buf := make([]byte, 32<<10)
	for pos > 0 {
		size := min(int64(len(buf)), pos)
		pos -= size
		if _, err := f.ReadAt(buf[:size], pos); err != nil {
			return err
		}
		chunk := buf[:size]
		if pos+size == end {
			chunk = bytes.TrimSuffix(chunk, []byte("\n")) // the last line's own end
		}
		for i := len(chunk) - 1; i >= 0; i-- {
			if chunk[i] != '\n' {
				continue
			}
			if lines++; lines == n {
				_, err := f.Seek(pos+int64(i)+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// follower reads on past the end, and into the next file after a rotation.
type follower struct {
	ctx  context.Context //nolint:containedctx // it bounds a reader's life, as a request's body does
	file *os.File
}

func (f *follower) Read(p []byte) (int, error) {
	for {
		n, err := f.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if next, err := os.Open(f.file.Name()); err == nil {
			if f.rotated(next) {
				_ = f.file.Close()
				f.file = next
				continue
			}
			_ = next.Close()
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-time.After(followEvery):
		}
	}
}

func (f *follower) rotated(next *os.File) bool {
	a, err := f.file.Stat()
	if err != nil {
		return false
	}
	b, err := next.Stat()
	return err == nil && !os.SameFile(a, b)
}

func (f *follower) Close() error { return f.file.Close() }

// pruneLogs removes the oldest logs of objects that are gone. Called under
// the lock.
func (t *Target) pruneLogs() {
	root := filepath.Join(t.cfg.DataDir, "logs")
	entries, err := os.ReadDir(root)
	if err != nil {
		return // there are none
	}
	type old struct {
		path string
		at   time.Time
	}
	var gone []old
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && t.objects[e.Name()] == nil {
			gone = append(gone, old{filepath.Join(root, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(gone, func(a, b old) int { return b.at.Compare(a.at) })
	for _, g := range gone[min(len(gone), keepGoneLogs):] {
		if err := os.RemoveAll(g.path); err != nil {
			t.log.Warn("cannot remove old logs", "err", err)
		}
	}
}
