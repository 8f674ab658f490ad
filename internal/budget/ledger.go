package budget

import (
	"context"
	"time"

	"modeldock.io/internal/modelspec"
)

// Ledger is the seam of account 1: sqlledger and jsonledger implement it and
// ledgertest holds them to it. Every method is one transaction and safe for
// concurrent use. A method that returns an error has changed nothing, except
// where ErrUnavailable leaves it open; every method may be repeated.
type Ledger interface {
	Reservations
	Outbox
	Bindings
	Quotas
	Access
	Auditing
	Copying
	Close() error
}

// Reservations moves requests through their states.
type Reservations interface {
	// Submit stores a waiting reservation, or, if the same payload is already
	// there in whatever state, counts the submit and returns it as it is.
	// Errors: *ConflictError, *ModelInUseError, *UnknownPoolError.
	// An unknown tenant is created with cap 0.
	Submit(ctx context.Context, s Submission) (Reservation, error)
	// Get returns ErrNotFound for an id that is not this tenant's.
	Get(ctx context.Context, ref Ref) (Reservation, error)
	// List returns reservations in arrival order.
	List(ctx context.Context, f Filter) ([]Reservation, error)
	// Waiting returns the requests that wait, in arrival order: at most so many
	// in all (and the head of each tenant's queue in any case). Where there are
	// more, those of the tenants that have the most are left out, the last in
	// each tenant's own queue first.
	Waiting(ctx context.Context, most int) (Waiters, error)
	// Admit takes at most limit (0: all) waiting requests in the published
	// order (see Queue) as far as quotas and pools allow. Each admission
	// takes the slots, journals them and writes the apply intent at once (INV5).
	Admit(ctx context.Context, limit int) ([]Reservation, error)
	// Expire ends requests that waited past their expiry.
	Expire(ctx context.Context) ([]Reservation, error)
	// Standing explains why a waiting request waits; ErrNotFound, or ErrFinal
	// if it does not wait.
	Standing(ctx context.Context, ref Ref) (Standing, error)
	// Standings explains many at once, from one snapshot; refs that do not
	// wait are left out.
	Standings(ctx context.Context, refs []Ref) (map[Ref]Standing, error)
	// RequestRelease ends a waiting request at once; for a reserved one it
	// records the wish and writes the delete intent. Idempotent in every state.
	RequestRelease(ctx context.Context, ref Ref) (Reservation, error)
	// Credit moves reserved → released and gives the slots back, once. The
	// caller has seen that the object and its last Pod or process are gone.
	// ErrNotReleasable unless a release was requested, its delete intent was
	// delivered and no apply intent of it is leased; crediting a released
	// one changes nothing and succeeds. force (an admin's decision, audited
	// by the caller) needs only the release request.
	Credit(ctx context.Context, ref Ref, force bool) (Reservation, error)
	// Patch changes parts of a live request's model and advances its
	// generation; spec_hash stays, so that a repeated first submit stays the
	// same answer. A patch that changes nothing returns the record as it is.
	// Waiting: only the stored model changes. Reserved: the apply intent of
	// the new generation is written with it; what more replicas take is
	// debited at once (see NextPatch), and what fewer free stays held until
	// CreditShrink. A repeated patch that took effect is answered stale.
	// Errors: ErrNotFound, ErrFinal, ErrReleaseRequested,
	// *StaleGenerationError, *modelspec.FieldError, *BlockedError.
	Patch(ctx context.Context, ref Ref, p Patch) (Reservation, error)
	// Grow funds replicas in all, of a reserved request, up to replicas.max:
	// the debit, its journal entry, and the apply intent of a new generation
	// are one. Slots whose shrink was not credited yet are used first. Funded
	// replicas ≥ replicas change nothing. It takes free slots only, and stands
	// behind the queue: see Queue.Grows. Errors: ErrNotFound, ErrFinal,
	// ErrNotReserved, ErrReleaseRequested, *ReplicaBoundError, *BlockedError.
	Grow(ctx context.Context, ref Ref, replicas int) (Reservation, error)
	// Shrink lowers the funded replicas to replicas, at least max(1,
	// replicas.min), in a new generation. The slots stay held until the
	// surplus is gone: CreditShrink. Errors as of Grow, without the last.
	Shrink(ctx context.Context, ref Ref, replicas int) (Reservation, error)
	// CreditShrink gives back, once, what is held beyond the funded replicas.
	// The caller has seen that at most Funded replicas exist, of at least
	// generation. ErrNotReleasable if the generation moved on meanwhile, its
	// apply was not delivered, an apply is leased, or a release was asked for;
	// with nothing to give back it changes nothing and succeeds.
	CreditShrink(ctx context.Context, ref Ref, generation int64) (Reservation, error)
	// SetNode records where a reservation was placed, for people.
	SetNode(ctx context.Context, ref Ref, node string) error
	// Journal returns the debits and credits of one reservation, oldest first.
	Journal(ctx context.Context, ref Ref) ([]Entry, error)
}

// Filter selects reservations; zero fields select everything.
type Filter struct {
	Tenant         string
	State          State
	Model          string // model name
	AfterSeq       int64  // strictly after this arrival number
	Limit          int    // 0: no limit
	ReleasePending bool   // reserved, with a release requested
	ShrinkPending  bool   // reserved, no release requested, and holding more than the funded replicas cost
}

// Outbox hands intents to relays under leases judged by the ledger's clock.
type Outbox interface {
	// Claim leases up to n due rows to owner. Rows of one reservation are
	// handed out one at a time and in order; a delete supersedes (marks
	// delivered, with LastError "superseded") older undelivered applies that
	// are not leased, and waits for one that is.
	Claim(ctx context.Context, owner string, n int, lease time.Duration) ([]Intent, error)
	// Delivered marks an apply delivered and binds its object in one
	// transaction. ErrReleaseRequested: a release came first, the intent is
	// marked superseded, nothing is bound and the caller deletes the object by
	// UID. *BoundElsewhereError (INV3). ErrLeaseLost if owner no longer
	// holds it; repeating a delivered apply with the same UID succeeds.
	Delivered(ctx context.Context, in Intent, obj Object) error
	// DeleteDelivered marks a delete as accepted by the target.
	DeleteDelivered(ctx context.Context, in Intent) error
	// Defer gives the row back after a failure, to be tried again after wait.
	Defer(ctx context.Context, in Intent, cause string, wait time.Duration) error
	// Intents returns all outbox rows of one reservation, oldest first.
	Intents(ctx context.Context, ref Ref) ([]Intent, error)
}

// Bindings records what became of the delivered object.
type Bindings interface {
	// Binding returns ErrNotFound while nothing is bound.
	Binding(ctx context.Context, ref Ref) (Binding, error)
	// LiveBindings returns the bindings of all reserved requests at once; what
	// is not delivered yet is left out.
	LiveBindings(ctx context.Context) (map[Ref]Binding, error)
	// MarkReady records the first readiness of the bound UID; other UIDs are ignored.
	MarkReady(ctx context.Context, ref Ref, uid string) error
	// MarkGone records that the object and its last process are gone.
	MarkGone(ctx context.Context, ref Ref, uid string) error
}

// Quotas are the two caps.
type Quotas interface {
	Tenants(ctx context.Context) ([]Tenant, error)
	Tenant(ctx context.Context, name string) (Tenant, error)
	SetQuota(ctx context.Context, tenant string, limit int64) (Tenant, error)
	SetEngines(ctx context.Context, tenant string, allow []string) (Tenant, error)
	SetPools(ctx context.Context, tenant string, allow []string) (Tenant, error)
	// SetLimits replaces all limits of a tenant. The ledger keeps them; it is
	// the gateways that count.
	SetLimits(ctx context.Context, tenant string, limits Limits) (Tenant, error)
	Pools(ctx context.Context) ([]Pool, error)
	SetPool(ctx context.Context, pool string, limit int64) (Pool, error)
	// SetWarm replaces what a pool keeps ready; an empty one keeps nothing.
	// ErrNotFound for an unknown pool, *modelspec.FieldError.
	SetWarm(ctx context.Context, pool string, warm modelspec.WarmPool) (Pool, error)
	// KeepWarmDay keeps what whoever scales has counted of a pool, and tells
	// nobody; an unknown pool is passed over.
	KeepWarmDay(ctx context.Context, pool, day string) error
	// Usage returns all quotas and pools and the journal's newest entries (at
	// most so many), newest first, from one snapshot: see Usage.Courses.
	Usage(ctx context.Context, entries int) (Usage, error)
	// Counts returns how many rows a tenant has; none for an unknown one.
	Counts(ctx context.Context, tenant string) (Counts, error)
}

// Access holds keys, grants and sessions.
type Access interface {
	CreateKey(ctx context.Context, k APIKey) error
	Keys(ctx context.Context) ([]APIKey, error)
	// Key returns ErrNotFound for an unknown id; a revoked or expired key is
	// returned, the caller judges it by APIKey.Live.
	Key(ctx context.Context, id string) (APIKey, error)
	// RevokeKey is idempotent; ErrNotFound for an unknown id.
	RevokeKey(ctx context.Context, id string) error
	// TouchKeys records the last use of keys, by id.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
	Grants(ctx context.Context) ([]Grant, error)
	// EndedGrants are those that are remembered, see EndedGrant.
	EndedGrants(ctx context.Context) ([]EndedGrant, error)
	// PutGrant and DeleteGrant are idempotent, and tell whether they changed
	// anything. What its grantee declined is granted only anew, else it is a
	// *DeclinedError. A grantee can decline also what was taken back.
	PutGrant(ctx context.Context, g Grant, anew bool) (changed bool, err error)
	DeleteGrant(ctx context.Context, owner, model, grantee string, declined bool) (changed bool, err error)
	// OwnedNames returns every (owner, model name) ever submitted: a name once
	// owned never resolves to a grant.
	OwnedNames(ctx context.Context) (map[string][]string, error)
	// CreateSession drops expired sessions, and the key's oldest beyond
	// MaxSessions.
	CreateSession(ctx context.Context, s Session) error
	// Session returns ErrNotFound for an unknown or expired one.
	Session(ctx context.Context, idHash [32]byte) (Session, error)
	DeleteSession(ctx context.Context, idHash [32]byte) error
}

// Auditing checks the ledger against itself and remembers who changed what.
type Auditing interface {
	Verify(ctx context.Context) (Report, error)
	AppendAudit(ctx context.Context, e AuditEntry) error
	// Audit returns the latest entries, newest first.
	Audit(ctx context.Context, limit int) ([]AuditEntry, error)
	// SearchAudit returns one page of those that match.
	SearchAudit(ctx context.Context, q AuditQuery) (AuditPage, error)
	// PruneAudit forgets changes of tenants until keep are left, the oldest of
	// those that have the most (see AuditShare), and all but the newest keep of
	// everybody else: see AuditEntry.ByTenant.
	PruneAudit(ctx context.Context, keep int64) error
	// Identity returns the ledger's random incarnation and highest journal seq.
	Identity(ctx context.Context) (incarnation string, journalSeq int64, err error)
}

// TopicElsewhere is the topic of a change that another process made: anything
// may have moved.
const TopicElsewhere = "elsewhere"

// Change is a hint that something moved; whoever gets it reads again.
type Change struct {
	Topic    string // "request", "quota", "ledger", TopicElsewhere
	Ref      Ref
	Revision int64
}
