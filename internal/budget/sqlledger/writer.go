package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"modeldock.io/internal/budget"
)

// Bounds of the writer: what may wait, and what one commit may take.
const (
	maxQueued = 8192
	maxBatch  = 512
)

// errUnknown: the reply to a COMMIT was lost and could not be read back.
var errUnknown = errors.New("what became of the commit could not be read back")

var errClosed = errors.New("the ledger is closed")

// writer owns the one write connection. It commits in groups: whatever has
// gathered while the previous commit was in flight becomes the next one. No
// timer delays a lonely write.
type writer struct {
	db       *sql.DB
	dialect  dialect
	protocol protocol
	together func(ctx context.Context, w *writer, batch []*operation) error // nil: one by one
	opts     Options
	queue    chan *operation
	closing  chan struct{}
	stopped  chan struct{}
	ended    chan struct{} // stopped, together with those it shares its queue with
	once     sync.Once
	session  *session         // nil until needed, and after a failure
	clock    func() time.Time // of the transaction under way
}

// operation is one caller's transaction within a group.
type operation struct {
	ctx    context.Context //nolint:containedctx // the caller's, only asked whether he still waits
	run    func(ctx context.Context, t *transaction) error
	fresh  *freshRequest // what to insert, for writers that work on whole groups
	done   chan error
	err    error
	change []budget.Change
}

// transaction is what an operation works with. The context handed to it is
// the writer's own: a cancelled statement would silently roll back the whole
// group and let the rest run outside any transaction.
type transaction struct {
	q       queries
	dialect dialect
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

func newWriter(db *sql.DB, d dialect, p protocol, opts Options) *writer {
	w := &writer{db: db, dialect: d, protocol: p, opts: opts, queue: make(chan *operation, maxQueued), closing: make(chan struct{}), stopped: make(chan struct{})}
	w.ended = w.stopped
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
	return w.await(ctx, what, &operation{ctx: ctx, run: run, done: make(chan error, 1)})
}

// await queues an operation and waits for the answer.
func (w *writer) await(ctx context.Context, what string, op *operation) error {
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
	case <-w.ended:
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
	defer w.protocol.end(context.Background())
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

// patience is how long a group is tried again that failed through no fault
// of its own.
const patience = 15 * time.Second

// commit runs the group in one transaction, and the whole of it again when
// the database undid it for the sake of another. Its error means that nothing
// of the group is known to be committed.
func (w *writer) commit(batch []*operation) error {
	for start, wait := time.Now(), time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := w.commitOnce(context.Background(), batch)
		if err == nil || !w.dialect.isTransient(err) || time.Since(start) >= patience {
			return err
		}
		w.opts.Logger.Debug("ledger transaction is tried again", "operations", len(batch), "error", err)
		time.Sleep(wait/2 + rand.N(wait)) //nolint:gosec // two that collided shall not collide again; no secret
	}
}

func (w *writer) commitOnce(ctx context.Context, batch []*operation) error {
	// 1. A connection with its prepared statements.
	if err := w.ensureSession(ctx); err != nil {
		return err
	}
	// 2. The write lock.
	var err error
	if w.clock, err = w.protocol.begin(ctx, w.session); err != nil {
		w.abort(ctx)
		return fmt.Errorf("begin: %w", err)
	}
	// 3. Every operation.
	if err := w.work(ctx, batch); err != nil {
		w.abort(ctx)
		return err
	}
	// 4. What others want to hear of.
	if anyChange(batch) {
		if err := w.protocol.announce(ctx, w.session); err != nil {
			w.abort(ctx)
			return err
		}
	}
	// 5. All of it at once.
	if err := w.session.exec(ctx, "COMMIT"); err != nil {
		err = w.protocol.settle(ctx, w.session, fmt.Errorf("commit: %w", err))
		w.abort(ctx)
		return err
	}
	return nil
}

func anyChange(batch []*operation) bool {
	return slices.ContainsFunc(batch, func(op *operation) bool { return len(op.change) > 0 })
}

// work runs every operation, in a savepoint of its own unless the writer
// takes whole groups.
func (w *writer) work(ctx context.Context, batch []*operation) error {
	if w.together != nil {
		return w.together(ctx, w, batch)
	}
	for _, op := range batch {
		if err := w.attempt(ctx, op); err != nil {
			return err
		}
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
	t := &transaction{q: w.dialect.queries(w.session), dialect: w.dialect, now: w.now()}
	op.change = nil
	op.err = op.run(ctx, t)
	var refused refusal
	switch {
	case op.err == nil:
		op.change = t.changes
	case errors.As(op.err, &refused) || w.dialect.isConstraint(op.err):
		if err := w.session.exec(ctx, "ROLLBACK TO operation"); err != nil {
			return fmt.Errorf("undo a refused operation: %w", err)
		}
	default:
		return op.err
	}
	if err := w.session.exec(ctx, "RELEASE SAVEPOINT operation"); err != nil {
		return fmt.Errorf("end a savepoint: %w", err)
	}
	return nil
}

// now is the ledger's clock in the resolution that is stored.
func (w *writer) now() time.Time { return w.clock().UTC().Truncate(time.Microsecond) }

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
		outcome := "not committed"
		if errors.Is(failure, errUnknown) {
			outcome = "perhaps committed"
		}
		w.opts.Logger.Warn("ledger commit failed", "operations", len(batch), "error", failure)
		for _, op := range batch {
			op.done <- fmt.Errorf("%w: %s: %w", budget.ErrUnavailable, outcome, failure)
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
	if w.session, err = w.dialect.session(ctx, conn, w.opts.BeforeStatement); err != nil {
		return errors.Join(fmt.Errorf("set the connection up: %w", err), conn.Close())
	}
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
	w.session.discard()
	w.session = nil
}
