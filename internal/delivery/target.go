// Package delivery is account 2: did the model really start? It relays the
// ledger's intents to a target, and judges by the object's UID, its processes'
// or Pods' identities and the engine's own health, never by the fact that
// something was created.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// ErrNameTaken says that an object of this name exists and is not ours; it was left
// untouched and the slots are kept.
var ErrNameTaken = errors.New("NameTaken")

// UnknownReplicaError says that a request has no replica of the name that was
// asked for, and which ones it has.
type UnknownReplicaError struct {
	Ref      budget.Ref
	Replica  string   // as asked for; empty: any
	Existing []string // full names; empty: there is none, and no output of an earlier one is kept
}

func (e *UnknownReplicaError) Error() string {
	if len(e.Existing) == 0 {
		return fmt.Sprintf("request %s of tenant %s has no replica yet, and no output of an earlier one is kept", e.Ref.ID, e.Ref.Tenant)
	}
	return fmt.Sprintf("request %s of tenant %s has no replica %q; it has %s (the number at the end is enough)", e.Ref.ID, e.Ref.Tenant, e.Replica, strings.Join(e.Existing, ", "))
}

// Is makes it a kind of budget.ErrNotFound.
func (e *UnknownReplicaError) Is(target error) bool { return target == budget.ErrNotFound }

// Desired is the state that delivery wants for one reservation: the
// ModelService, or the same record on one machine.
type Desired struct {
	Ref        budget.Ref
	Ledger     string // incarnation of the ledger, stands on the object
	Name       string // ObjectName(Ref)
	Generation int64
	Model      modelspec.Model
	Funded     int // the target never runs more replicas
	// JournalSeq is the ledger's highest journal number at this delivery; it
	// stands on the object, so that an older copy of the ledger is recognised.
	JournalSeq int64
	// UID is set where the ledger has the object bound already. A target whose
	// objects are its own records restores one that was lost under this
	// identity; others cannot choose a UID and ignore it.
	UID string
}

// Target is where models run. Implementations are safe for concurrent use and
// every call may be repeated: a call that timed out may have taken effect.
type Target interface {
	// Apply creates or updates the object and returns its identity. It does
	// not wait for replicas. ErrNameTaken if a foreign object has the name.
	Apply(ctx context.Context, d Desired) (budget.Object, error)
	// Delete starts the deletion of ref's object; with uid set only if the
	// object still has it. An object that is not there, or not ours, is no error.
	Delete(ctx context.Context, ref budget.Ref, uid string) error
	// Observe reports what is really there, also while it is going away.
	Observe(ctx context.Context, ref budget.Ref) (Status, error)
	// List observes every object of ours.
	List(ctx context.Context) ([]Status, error)
}

// Phase of a replica.
type Phase string

// The phases in the order of a replica's life.
const (
	PhasePending     Phase = "Pending"  // no card yet
	PhaseStarting    Phase = "Starting" // process or Pod is being started
	PhaseLoading     Phase = "Loading"  // it runs, its health check does not answer yet
	PhaseReady       Phase = "Ready"
	PhaseBackoff     Phase = "Backoff" // it failed and will be started again
	PhaseTerminating Phase = "Terminating"
	// PhaseAsleep: not wanted now, and its engine stays loaded in host memory.
	PhaseAsleep Phase = "Asleep"
)

// Reason why a model is not (or is) ready: a closed list.
type Reason string

// The reasons.
const (
	WaitingForNode           Reason = "WaitingForNode"
	NoFragmentFits           Reason = "NoFragmentFits"
	Unplaceable              Reason = "Unplaceable" // no machine could place it, because it is nothing that a submit takes
	ImagePullFailed          Reason = "ImagePullFailed"
	ModelLoadFailed          Reason = "ModelLoadFailed"
	CrashLooping             Reason = "CrashLooping" // it was ready and ended, more than once in a row
	Crashed                  Reason = "Crashed"      // of a failure: the first such end, after which it loads again
	ProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	NotOwned                 Reason = "NotOwned"
	ReplicaFailure           Reason = "ReplicaFailure" // the cluster refuses to make what was declared: a quota, a policy, an admission webhook
	ScaledToZero             Reason = "ScaledToZero"
	Draining                 Reason = "Draining"
	BudgetBlocked            Reason = "BudgetBlocked"
	Available                Reason = "Available"
	Loading                  Reason = "Loading" // running, not answering yet
	NameTaken                Reason = "NameTaken"
	Undelivered              Reason = "Undelivered"    // the outbox row is still to be delivered
	PortTaken                Reason = "PortTaken"      // another process listens where the engine was to listen, more than once in a row
	ReleaseBlocked           Reason = "ReleaseBlocked" // a replica does not go away
)

// Status is what a target saw of one object. Exists is false once the object
// and every replica that carried its UID are gone.
type Status struct {
	Ref        budget.Ref
	Object     budget.Object
	Ledger     string // incarnation of the ledger that the object belongs to
	JournalSeq int64  // the ledger's highest journal number when it was last written
	Exists     bool
	Generation int64 // the generation that the replicas run
	Wanted     int   // replicas that should run: asked for, and paid for
	Asked      int   // replicas that are asked for; see Scalable
	Funded     int   // replicas that are paid for, as the object says
	Ready      int   // of them
	// OtherScaler says who else writes Asked although the model's settings name
	// ModelDock or somebody else; empty: nobody.
	OtherScaler string
	Reason      Reason
	Message     string // with figures
	Replicas    []Replica
	LastFailure *Failure
	CreatedAt   time.Time
	DeletingAt  time.Time // zero unless it is going away
	ObservedAt  time.Time
	// Last tells of every replica what was known when it last had a process,
	// also once that, or the whole object, is gone: proof, not state. A target
	// keeps it for the retention time; Object then names the object it was.
	Last []Replica
	// Missing says that the object itself is not there, but replicas that
	// carried its UID are. Earlier are the UIDs of further objects of this name
	// that are gone and whose replicas are not. Both occur only where others
	// can delete objects: see Honouring.
	Missing bool
	Earlier []string
	// Foreign is the UID of an object of this name that does not say, or does
	// not say any more, that it is ref's.
	Foreign string
	// Scaling are the latest changes of Asked, oldest first.
	Scaling []ScalingStep
}

// Asleep reports whether it runs nothing because nobody asks for a replica.
func (s Status) Asleep() bool {
	return s.Exists && s.DeletingAt.IsZero() && s.Asked == 0 && s.Wanted == 0
}

// EverReady reports whether a replica is known to be, or to have been, ready.
func (s Status) EverReady() bool {
	was := func(r Replica) bool { return r.EverReady || !r.ReadyAt.IsZero() }
	return s.Ready > 0 || slices.ContainsFunc(s.Replicas, was) || slices.ContainsFunc(s.Last, was)
}

// Processes is the number of replicas that have a process or a Pod, in whatever
// phase: also one that terminates still holds its card. One that sleeps does
// not, and is none.
func (s Status) Processes() int {
	n := 0
	for _, r := range s.Replicas {
		if r.UID != "" && r.Phase != PhaseAsleep {
			n++
		}
	}
	return n
}

// Sleeping is the number of replicas whose engines sleep in host memory.
func (s Status) Sleeping() int {
	n := 0
	for _, r := range s.Replicas {
		if r.Phase == PhaseAsleep {
			n++
		}
	}
	return n
}

// Replica is one running copy, or one that should run.
type Replica struct {
	Name     string
	UID      string // new for every started process or Pod
	Phase    Phase
	Reason   Reason
	Message  string
	Node     string
	Cards    []Card
	PID      int    // on one machine
	Address  string // host:port of its endpoint, once known
	Upstream string // the model name that the engine serves
	Engine   string // engine identity as the engine reports it
	Restarts int
	// Untracked says that it asks for no card, so that nothing tells which it uses.
	Untracked bool
	EverReady bool      // it is, or was, ready; where a target does not tell, false
	CreatedAt time.Time // since when it wants a place; zero where a target does not tell
	PlacedAt  time.Time
	StartedAt time.Time
	WokenAt   time.Time // when its engine was last told to wake up; zero: it was started for what it serves now
	ReadyAt   time.Time
}

// Placed reports whether it has the place that it asked for: cards, or a node
// where nobody keeps account of cards.
func (r Replica) Placed() bool { return len(r.Cards) > 0 || (r.Untracked && r.Node != "") }

// Card is a card of a replica, with what it had free at the decision.
type Card struct {
	UUID      string
	Index     int
	Model     string
	Simulated bool
	MiB       int64  // taken by this replica
	FreeMiB   int64  // free at the decision, before it was taken
	Isolation string // from the others on the card: none, mps or mig; empty: none
}

// Failure is the last failure of a replica.
type Failure struct {
	Reason   Reason
	Message  string // last lines of the engine's output
	Replica  string
	At       time.Time
	ExitCode int // -1 where a signal ended it
	// NeverRan tells that no process came to be.
	NeverRan bool `json:",omitempty"`
}
