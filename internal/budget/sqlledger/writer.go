package sqlledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Bounds of the writer: what may wait, and what one commit may take.
const (
	maxQueued = 8192
	maxBatch  = 512
)

var errClosed = errors.New("the ledger is closed")

// writer owns the one write connection. It commits in groups: whatever has
// gathered while the previous commit was in flight becomes the next one. No
// timer delays a lonely write.
type writer struct {
	db      *sql.DB
	opts    Options
	queue   chan *operation
	closing chan struct{}
	stopped chan struct{}
	once    sync.Once
	session *session // nil until needed, and after a failure
}

// operation is one caller's transaction within a group.
type operation struct {
	ctx    context.Context //nolint:containedctx // the caller's, only asked whether he still waits
	run    func(ctx context.Context, t *transaction) error
	done   chan error
	err    error
	change []budget.Change
}

// transaction is what an operation works with. The context handed to it is
// the writer's own: a cancelled statement would silently roll back the whole
// group and let the rest run outside any transaction.
type transaction struct {
	q       *sqlitequery.Queries
	now     time.Time
	changes []budget.Change
}

func (t *transaction) changed(topic string, ref budget.Ref, revision int64) {
	t.changes = append(t.changes, budget.Change{Topic: topic, Ref: ref, Revision: revision})
}

// refusal marks an answer of the rules, as opposed to a failure of the store:
// it undoes only the one operation.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refuse(err error) error { return refusal{err} }

func newWriter(db *sql.DB, opts Options) *writer {
	w := &writer{db: db, opts: opts, queue: make(chan *operation, maxQueued), closing: make(chan struct{}), stopped: make(chan struct{})}
	go w.loop()
	return w
}

func (w *writer) close() {
	w.once.Do(func() { close(w.closing) })
	<-w.stopped
}

// do runs one operation in the next group and waits for its commit. If the
// caller leaves earlier, whether it takes effect is unknown to him.
func (w *writer) do(ctx context.Context, what string, run func(ctx context.Context, t *transaction) error) error {
	op := &operation{ctx: ctx, run: run, done: make(chan error, 1)}
	select {
	case <-w.closing:
		return fmt.Errorf("%s: %w: %w", what, budget.ErrUnavailable, errClosed)
	default:
	}
	select {
	case w.queue <- op:
	case <-w.closing:
		return fmt.Errorf("%s: %w: %w", what, budget.ErrUnavailable, errClosed)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: not begun: %w", what, budget.ErrUnavailable, context.Cause(ctx))
	}
	var err error
	select {
	case err = <-op.done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: not waited for: %w", what, budget.ErrUnavailable, context.Cause(ctx))
	case <-w.stopped:
		// Answered before it stopped, or never begun.
		select {
		case err = <-op.done:
		default:
			err = fmt.Errorf("%w: %w", budget.ErrUnavailable, errClosed)
		}
	}
	var refused refusal
	if errors.As(err, &refused) {
		return refused.error
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (w *writer) loop() {
	defer close(w.stopped)
	defer w.drop()
	batch := make([]*operation, 0, maxBatch)
	for {
		select {
		case op := <-w.queue:
			batch = append(batch[:0], op)
		case <-w.closing:
			// What was queued before the close is still committed.
			select {
			case op := <-w.queue:
				batch = append(batch[:0], op)
			default:
				return
			}
		}
		batch = w.gather(batch)
		w.answer(batch, w.commit(batch))
	}
}

func (w *writer) gather(batch []*operation) []*operation {
	for len(batch) < maxBatch {
		select {
		case op := <-w.queue:
			batch = append(batch, op)
		default:
			return batch
		}
	}
	return batch
}

// commit runs the group in one transaction. Its error means that nothing of
// the group is known to be committed.
func (w *writer) commit(batch []*operation) error {
	ctx := context.Background()
	// 1. A connection with its prepared statements.
	if err := w.ensureSession(ctx); err != nil {
		return err
	}
	// 2. The write lock.
	if err := beginImmediate(ctx, w.session.exec); err != nil {
		w.abort(ctx)
		return fmt.Errorf("begin: %w", err)
	}
	// 3. Every operation in a savepoint of its own.
	for _, op := range batch {
		if err := w.attempt(ctx, op); err != nil {
			w.abort(ctx)
			return err
		}
	}
	// 4. All of it at once.
	if err := w.session.exec(ctx, "COMMIT"); err != nil {
		w.abort(ctx)
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// attempt runs one operation. The rules' and the constraints' refusals stay
// with the operation; any other error, also of the savepoint itself, means
// that the transaction may be gone, and fails the group.
func (w *writer) attempt(ctx context.Context, op *operation) error {
	if op.abandoned() {
		return nil
	}
	if err := w.session.exec(ctx, "SAVEPOINT operation"); err != nil {
		return fmt.Errorf("set a savepoint: %w", err)
	}
	t := &transaction{q: sqlitequery.New(w.session), now: w.opts.Clock().UTC().Truncate(time.Microsecond)}
	op.err = op.run(ctx, t)
	var refused refusal
	switch {
	case op.err == nil:
		op.change = t.changes
	case errors.As(op.err, &refused) || isConstraint(op.err):
		if err := w.session.exec(ctx, "ROLLBACK TO operation"); err != nil {
			return fmt.Errorf("undo a refused operation: %w", err)
		}
	default:
		return op.err
	}
	if err := w.session.exec(ctx, "RELEASE operation"); err != nil {
		return fmt.Errorf("end a savepoint: %w", err)
	}
	return nil
}

// abandoned reports whether the caller left before his operation began.
func (op *operation) abandoned() bool {
	if op.ctx.Err() == nil {
		return false
	}
	op.err = fmt.Errorf("%w: not begun: %w", budget.ErrUnavailable, context.Cause(op.ctx))
	return true
}

// answer tells every caller what became of his operation, then hints at what changed.
func (w *writer) answer(batch []*operation, failure error) {
	if failure != nil {
		w.opts.Logger.Warn("ledger commit failed", "operations", len(batch), "error", failure)
		for _, op := range batch {
			op.done <- fmt.Errorf("%w: not committed: %w", budget.ErrUnavailable, failure)
		}
		return
	}
	for _, op := range batch {
		op.done <- op.err
	}
	for _, op := range batch {
		for _, c := range op.change {
			w.opts.OnChange(c)
		}
	}
}

func (w *writer) ensureSession(ctx context.Context) error {
	if w.session != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	w.session = newSession(conn, w.opts.BeforeStatement)
	return nil
}

// abort ends the transaction in whatever state it is, and the connection with it.
func (w *writer) abort(ctx context.Context) {
	if _, err := w.session.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		w.opts.Logger.Debug("rollback found no transaction", "error", err)
	}
	w.drop()
}

// drop closes the connection for good instead of giving it back to the pool.
func (w *writer) drop() {
	if w.session == nil {
		return
	}
	for _, st := range w.session.stmts {
		_ = st.Close()
	}
	_ = w.session.conn.Raw(func(any) error { return driver.ErrBadConn })
	w.session = nil
}
