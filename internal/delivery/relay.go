package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"modeldock.io/internal/budget"
)

// RelayConfig is what a relay needs.
type RelayConfig struct {
	Outbox   budget.Outbox
	Bindings budget.Bindings // for the UID that a deletion is bound to
	Target   Target
	Ledger   string         // the ledger's incarnation, stands on every object
	Owner    string         // names this process in leases
	Random   func() float64 // in [0,1), for jitter
	Doubt    *Doubt         // while it is halted nothing is delivered; may be nil
	Stamp    Stamper        // before every delivery; nil: never
	Logger   *slog.Logger   // nil: slog.Default

	Workers int                // 0: 2
	Batch   int                // rows that a worker claims at once; 0: 4
	Lease   time.Duration      // 0: 30 s
	Poll    time.Duration      // 0: 1 s
	Crash   func(point string) // nil: never
}

// Relay carries the ledger's intents to the target. Everything may happen
// twice; what makes it happen once is the target's idempotence and the
// ledger's lease and binding.
type Relay struct{ cfg RelayConfig }

// NewRelay fills in defaults.
func NewRelay(cfg RelayConfig) *Relay {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 2
	}
	if cfg.Batch <= 0 {
		cfg.Batch = 4
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 30 * time.Second
	}
	if cfg.Poll <= 0 {
		cfg.Poll = time.Second
	}
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	return &Relay{cfg}
}

// Run relays until ctx ends, with every worker under an owner name of its own.
func (r *Relay) Run(ctx context.Context, wake <-chan struct{}) {
	var workers sync.WaitGroup
	for i := range r.cfg.Workers {
		owner := r.cfg.Owner + "/" + strconv.Itoa(i)
		workers.Go(func() {
			keepRounds(ctx, wake, r.cfg.Poll, r.cfg.Logger, func(ctx context.Context) (bool, error) {
				s, err := r.round(ctx, owner, r.cfg.Batch)
				return len(s.Steps) == r.cfg.Batch, err
			})
		})
	}
	workers.Wait()
}

// Round claims and delivers up to n rows, for stepping by hand.
func (r *Relay) Round(ctx context.Context, n int) (Summary, error) {
	return r.round(ctx, r.cfg.Owner+"/step", n)
}

// round delivers what it claimed side by side, so that a slow row delays
// nobody. The time for one is bounded below the lease: who holds a row longer
// than that does not hold it any more.
func (r *Relay) round(ctx context.Context, owner string, n int) (Summary, error) {
	done, ok := r.cfg.Doubt.Begin()
	if !ok {
		return Summary{}, nil
	}
	defer done()
	intents, err := r.cfg.Outbox.Claim(ctx, owner, n, r.cfg.Lease)
	if err != nil {
		return Summary{}, fmt.Errorf("claim outbox rows: %w", err)
	}
	if len(intents) == 0 {
		return Summary{}, nil
	}
	seq, unstamped := r.cfg.Stamp.stamp(ctx) // once for all of them
	steps := make([]Step, len(intents))
	errs := make([]error, len(intents))
	var all sync.WaitGroup
	for i, in := range intents {
		all.Go(func() {
			one, cancel := context.WithTimeout(ctx, r.cfg.Lease*2/3)
			defer cancel()
			if unstamped != nil {
				steps[i], errs[i] = r.putOff(one, in, Step{Ref: in.Ref}, unstamped)
				return
			}
			steps[i], errs[i] = r.deliver(one, in, seq)
		})
	}
	all.Wait()
	return Summary{steps}, errors.Join(errs...)
}

// deliver carries one intent out. What the target refuses is deferred; only
// what the ledger refuses is an error.
func (r *Relay) deliver(ctx context.Context, in budget.Intent, seq int64) (Step, error) {
	step := Step{Ref: in.Ref}
	var err error
	if in.Op == budget.Delete {
		step.Did = "deleted"
		if step.Object, err = r.delete(ctx, in.Ref); err == nil {
			r.cfg.Crash(CrashBeforeAck)
			return step, r.ledgerError(r.cfg.Outbox.DeleteDelivered(ctx, in))
		}
	} else {
		step.Did = "applied"
		r.cfg.Crash(CrashBeforeCreate)
		step.Object, err = r.cfg.Target.Apply(ctx, r.desired(in, seq))
		if err == nil {
			r.cfg.Crash(CrashBeforeAck)
			return r.bind(ctx, in, step)
		}
	}
	return r.putOff(ctx, in, step, err)
}

// delete deletes by the bound UID, so that a re-created object of the same
// name stays. Where nothing was bound, an object may still exist whose binding
// was lost in a crash; then only the annotations say that it is ours.
func (r *Relay) delete(ctx context.Context, ref budget.Ref) (budget.Object, error) {
	bound, err := r.cfg.Bindings.Binding(ctx, ref)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return budget.Object{}, err
	}
	return bound.Object, r.cfg.Target.Delete(ctx, ref, bound.UID)
}

func (r *Relay) desired(in budget.Intent, seq int64) Desired {
	return Desired{
		Ref: in.Ref, Ledger: r.cfg.Ledger, Name: ObjectName(in.Ref), Generation: in.Generation, Model: in.Model, Funded: in.Funded, JournalSeq: seq,
	}
}

// bind tells the ledger which object it was. Where a release came first, or
// the reservation is bound to another object, the one just made is deleted by
// its UID.
func (r *Relay) bind(ctx context.Context, in budget.Intent, step Step) (Step, error) {
	err := r.cfg.Outbox.Delivered(ctx, in, step.Object)
	var elsewhere *budget.BoundElsewhereError
	switch {
	case errors.Is(err, budget.ErrReleaseRequested):
		step.Did, step.Note = "superseded", "a release came first; the object is deleted again"
		if err := r.cfg.Target.Delete(ctx, in.Ref, step.Object.UID); err != nil {
			// The release's own delete intent does it again.
			r.cfg.Logger.Warn("cannot delete an object that was released while it was made", "object", step.Object.Name, "uid", step.Object.UID, "err", err)
		}
		return step, nil
	case errors.As(err, &elsewhere):
		if derr := r.cfg.Target.Delete(ctx, in.Ref, step.Object.UID); derr != nil {
			err = errors.Join(err, derr)
		}
		return r.putOff(ctx, in, step, err)
	}
	return step, r.ledgerError(err)
}

// ledgerError forgives a lost lease: somebody else delivers, or has delivered,
// the same row.
func (r *Relay) ledgerError(err error) error {
	if err == nil || errors.Is(err, budget.ErrLeaseLost) {
		return nil
	}
	return fmt.Errorf("mark an outbox row delivered: %w", err)
}

// putOff gives the row back with a growing pause. Its error is shown in the
// request's message.
func (r *Relay) putOff(ctx context.Context, in budget.Intent, step Step, cause error) (Step, error) {
	wait := r.backoff(in.Attempts, errors.Is(cause, ErrNameTaken))
	step.Did, step.Note = "deferred", fmt.Sprintf("%s failed: %v; tried again in %s", in.Op, cause, wait.Round(time.Millisecond))
	r.cfg.Logger.Warn("delivery failed", "tenant", in.Tenant, "id", in.ID, "op", in.Op, "attempts", in.Attempts, "again", wait, "err", cause)
	// The target may have used up this row's time; giving the row back must not fail for that.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/3)
	defer cancel()
	if err := r.cfg.Outbox.Defer(back, in, budget.IntentError(cause.Error()), wait); err != nil && !errors.Is(err, budget.ErrLeaseLost) {
		return step, fmt.Errorf("put off an outbox row: %w", err)
	}
	return step, nil
}

const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// A taken name is free at any moment that somebody chooses, and then the
	// model should start soon.
	lastPauseTaken = 30 * time.Second
)

// backoff doubles from firstPause with the attempts so far and spreads by up
// to a fifth less, so that rows that failed together are not tried together.
func (r *Relay) backoff(attempts int64, taken bool) time.Duration {
	most := lastPause
	if taken {
		most = lastPauseTaken
	}
	pause := firstPause
	for i := int64(1); i < attempts && pause < most; i++ {
		pause *= 2
	}
	pause = min(pause, most)
	if pause == firstPause || r.cfg.Random == nil {
		return pause
	}
	return pause - time.Duration(r.cfg.Random()*0.2*float64(pause))
}
