package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/supervise"
)

const (
	followEvery = 200 * time.Millisecond
)

func (t *Target) logPath(object string, index int) string {
	return filepath.Join(t.cfg.DataDir, "logs", object, replicaName(object, index)+".log")
}

// Logs returns the engine's output of one replica (its full name or its
// number; empty: the first that runs, or else the first), also after it ended: the last tail lines (0: all
// that is kept of the current file), and with follow everything that is
// written until ctx ends or the object is gone. A replica that has written
// nothing yet says why. *delivery.UnknownReplicaError if there is none.
func (t *Target) Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	object := delivery.ObjectName(ref)
	names, err := t.replicaNames(object)
	if err != nil {
		return nil, err
	}
	name := replica
	if index, err := strconv.Atoi(replica); err == nil {
		name = replicaName(object, index)
	}
	if replica == "" && len(names) > 0 {
		name = t.firstRunning(object, names[0])
	}
	if !slices.Contains(names, name) { // the name is matched, never joined unseen
		return nil, &delivery.UnknownReplicaError{Ref: ref, Replica: replica, Existing: names}
	}
	out := &follower{ctx: ctx, path: filepath.Join(t.cfg.DataDir, "logs", object, name+".log")}
	out.over = func() bool { return !follow || !t.knows(object) }
	if out.file, err = os.Open(out.path); errors.Is(err, fs.ErrNotExist) {
		out.note = t.noOutput(ref, name)
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	if err := seekTail(out.file, tail); err != nil {
		return nil, errors.Join(fmt.Errorf("read the log of %s: %w", name, err), out.Close())
	}
	return out, nil
}

// replicaNames lists the replicas that an object has or had, by their number.
func (t *Target) replicaNames(object string) ([]string, error) {
	numbers := map[int]bool{}
	entries, err := os.ReadDir(filepath.Join(t.cfg.DataDir, "logs", object))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the logs of %s: %w", object, err)
	}
	for _, e := range entries {
		number, isLog := strings.CutSuffix(strings.TrimPrefix(e.Name(), object+"-"), ".log")
		if n, err := strconv.Atoi(number); isLog && err == nil && n >= 0 {
			numbers[n] = true
		}
	}
	t.mu.Lock()
	if o := t.objects[object]; o != nil {
		for i := range o.wanted() {
			numbers[i] = true
		}
		for i := range o.slots {
			numbers[i] = true
		}
	}
	t.mu.Unlock()
	var names []string
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		names = append(names, replicaName(object, n))
	}
	return names, nil
}

// firstRunning names the first replica that has a process.
func (t *Target) firstRunning(object, otherwise string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[object]
	if o == nil {
		return otherwise
	}
	for _, i := range slices.Sorted(maps.Keys(o.slots)) {
		if o.slots[i].run != nil {
			return replicaName(object, i)
		}
	}
	return otherwise
}

func (t *Target) knows(object string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[object] != nil
}

// noOutput says why a replica has written nothing yet.
func (t *Target) noOutput(ref budget.Ref, name string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := "no output yet"
	if o := t.objects[delivery.ObjectName(ref)]; o != nil {
		st := t.status(o)
		text += fmt.Sprintf(": %s, %s", st.Reason, st.Message)
		for _, r := range st.Replicas {
			if r.Name == name && r.Message != "" {
				text = fmt.Sprintf("no output yet: %s, %s", r.Reason, r.Message)
			}
		}
	}
	return []byte(supervise.NoteLine(t.now(), text))
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

// follower reads on past the end, and into the next file after a rotation,
// until it is over. The file may come only later.
type follower struct {
	ctx  context.Context //nolint:containedctx // it bounds a reader's life, as a request's body does
	path string
	file *os.File // nil: not there yet
	note []byte   // told first
	over func() bool
}

func (f *follower) Read(p []byte) (int, error) {
	if len(f.note) > 0 {
		n := copy(p, f.note)
		f.note = f.note[n:]
		return n, nil
	}
	for {
		over := f.over() // before the last look, so that nothing is missed
		n, err := f.more(p)
		if n > 0 || !errors.Is(err, io.EOF) || over {
			return n, err
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-time.After(followEvery):
		}
	}
}

// more reads what is there now.
func (f *follower) more(p []byte) (int, error) {
	for {
		if f.file != nil {
			if n, err := f.file.Read(p); n > 0 || !errors.Is(err, io.EOF) {
				return n, err
			}
		}
		next, err := os.Open(f.path)
		if err != nil {
			return 0, io.EOF // not yet, or not any more
		}
		if f.file != nil && !f.rotated(next) {
			_ = next.Close()
			return 0, io.EOF
		}
		_ = f.Close()
		f.file = next
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

func (f *follower) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
