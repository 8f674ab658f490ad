// Package evidence joins the three accounts: for one reservation it answers
// from facts whether the budget was spent once, whether the model really
// started and whether the caller got the first chunk, and names the first
// broken link.
package evidence

import (
	"context"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
)

// Account is one of the three ledgers of a request's story.
type Account string

// The accounts, with release as the story's end.
const (
	Budget   Account = "budget"
	Delivery Account = "delivery"
	Traffic  Account = "traffic"
	Release  Account = "release"
)

// StepStatus is what the facts say about one step.
type StepStatus string

// The statuses. Unknown means that the fact could not be read; it is never ok.
const (
	OK      StepStatus = "ok"
	Pending StepStatus = "pending"
	Broken  StepStatus = "broken"
	Unknown StepStatus = "unknown"
)

// Step is one link of the chain. Facts are codes and figures; words are made
// by the client.
type Step struct {
	Seq      int
	Account  Account
	Name     string
	Status   StepStatus
	At       time.Time // zero: not yet
	Source   string    // where the fact was read, for example "ledger:journal"
	Reason   string
	Facts    map[string]any
	Expected string
	Found    string
}

// Answers are the three questions; nil means not yet.
type Answers struct {
	BudgetSpentOnce     *bool
	ModelStarted        *bool
	FirstChunkDelivered *bool
}

// Document is the evidence for one reservation.
type Document struct {
	Ref        budget.Ref
	Answers    Answers
	BrokenAt   string // a step's name, or empty
	Reason     string
	Message    string
	NextAction string
	Steps      []Step
}

// Store keeps the traffic account's evidence. Writes are idempotent by
// inference id.
type Store interface {
	// PutInferences writes a batch; for each record that delivered content it
	// also keeps the reservation's first and latest chunk.
	PutInferences(ctx context.Context, batch []traffic.Inference) error
	// Inference returns budget.ErrNotFound for an unknown request id.
	Inference(ctx context.Context, requestID string) (traffic.Inference, error)
	// Inferences returns the latest records of one reservation, newest first.
	Inferences(ctx context.Context, ref budget.Ref, limit int) ([]traffic.Inference, error)
	// Chunks returns the first and the latest delivered chunk; both nil if none.
	Chunks(ctx context.Context, ref budget.Ref) (first, latest *traffic.Chunk, err error)
	// Prune drops inference records beyond age and count; first and latest
	// chunks stay.
	Prune(ctx context.Context, maxAge time.Duration, maxRows int64) error
}

// Kept are the proofs that a Store keeps of one reservation; a copy of the
// ledger carries them along.
type Kept struct {
	budget.Ref
	First  traffic.Chunk
	Latest traffic.Chunk
}
