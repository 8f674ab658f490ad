// Package jsonledger is account 1 kept as one JSON file: the same rules as
// sqlledger in the simplest possible code. It is the oracle of property tests
// and a store for demonstrations. It shares the nouns with the other ledgers
// but decides admission, delivery and release in its own plain way; every
// change writes the whole file, so it is slow on purpose and for small
// ledgers only.
package jsonledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
)

var (
	_ budget.Ledger  = (*Ledger)(nil)
	_ evidence.Store = (*Ledger)(nil)
)

// Options of a ledger; zero fields take the defaults.
type Options struct {
	Clock    func() time.Time    // default time.Now
	HeadWait time.Duration       // default budget.DefaultHeadWait
	OnChange func(budget.Change) // called after a write; it never calls the ledger
	Logger   *slog.Logger        // default discards
}

// Ledger is a budget.Ledger and an evidence.Store over one file.
type Ledger struct {
	opts Options
	path string
	lock *os.File

	mu    sync.Mutex
	image []byte // the file's content, from which every change starts
	state *state // the same, decoded
	open  bool
}

// Open opens the ledger kept in the file at path, or creates it. Only one
// process may have it open.
func Open(path string, opts Options) (*Ledger, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.HeadWait == 0 {
		opts.HeadWait = budget.DefaultHeadWait
	}
	if opts.OnChange == nil {
		opts.OnChange = func(budget.Change) {}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	l := &Ledger{opts: opts, path: path, lock: lock, open: true}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// load reads the file, or writes the first one.
func (l *Ledger) load() error {
	image, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		first := newState()
		if image, err = first.encode(); err != nil {
			return err
		}
		if err := replaceFile(l.path, image); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	l.image = image
	l.state, err = decode(image)
	if err != nil {
		return fmt.Errorf("read the ledger %s: %w", l.path, err)
	}
	return nil
}

// Close lets the file go; calls made afterwards answer budget.ErrUnavailable.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return nil
	}
	l.open = false
	return l.lock.Close()
}

// now is the ledger's clock in the resolution that is kept.
func (l *Ledger) now() time.Time { return l.opts.Clock().UTC().Truncate(time.Microsecond) }

// ready is asked before every call, with the lock held.
func (l *Ledger) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: not begun: %w", budget.ErrUnavailable, context.Cause(ctx))
	}
	if !l.open {
		return fmt.Errorf("%w: the ledger is closed", budget.ErrUnavailable)
	}
	return nil
}

// update runs change on a fresh copy of the state; only if it succeeds and
// the file is safely replaced does the copy become the state.
func (l *Ledger) update(ctx context.Context, change func(s *state) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(ctx); err != nil {
		return err
	}
	next, err := decode(l.image)
	if err != nil {
		return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	if err := change(next); err != nil {
		return err
	}
	image, err := next.encode()
	if err != nil {
		return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	if err := replaceFile(l.path, image); err != nil {
		l.opts.Logger.Warn("ledger file not replaced", "error", err)
		return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	changes := next.changes
	next.changes = nil
	l.image, l.state = image, next
	for _, c := range changes {
		l.opts.OnChange(c)
	}
	return nil
}

// view runs look on the present state, which it must not change or keep.
func (l *Ledger) view(ctx context.Context, look func(s *state) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(ctx); err != nil {
		return err
	}
	return look(l.state)
}
