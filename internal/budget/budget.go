// Package budget is account 1: may this tenant spend these slots? It holds the
// nouns and the pure rules of the ledger; the adapters sqlledger and
// jsonledger store what the rules decide. No Pod, process or scheduler is
// known here.
package budget

import (
	"time"

	"modeldock.io/internal/modelspec"
)

// Ref names a reservation: two tenants may use the same id.
type Ref struct {
	Tenant string
	ID     string
}

// State of a reservation. States only move waiting → reserved → released,
// waiting → expired and waiting → released (INV4).
type State string

// The states.
const (
	Waiting  State = "waiting"
	Reserved State = "reserved"
	Released State = "released"
	Expired  State = "expired"
)

// Final reports whether no transition leaves s.
func (s State) Final() bool { return s == Released || s == Expired }

// Limits of a submission.
const (
	MaxCost     = 1_000_000
	MaxPriority = 100
	DefaultPool = "default"
	DefaultTTL  = 24 * time.Hour
	MaxTTL      = 366 * 24 * time.Hour
)

// Submission is a validated request to hold slots for a model; every default
// is filled in.
type Submission struct {
	Ref
	Cost     int64 // slots per replica, 1…MaxCost
	Priority int   // 0…MaxPriority, larger first
	Pool     string
	TTL      time.Duration // how long it may wait
	Model    modelspec.Model
}

// Need is the number of slots that admission takes: cost × max(1, replicas.min).
func (s Submission) Need() int64 { return slots(s.Cost, s.Model.Replicas.Funded()) }

// slots is what n replicas take. What no submit can have asked for takes more
// than any quota has, instead of a product that overflows.
func slots(cost int64, n int) int64 {
	if cost < 0 || cost > MaxCost || n < 0 || n > modelspec.MaxReplicas {
		return MaxCap + 1
	}
	return cost * int64(n)
}

// Reservation is the ledger's record of a submission. Zero times mean "not yet".
type Reservation struct {
	Ref
	Seq        int64 // arrival order, unique in the ledger
	Revision   int64 // advanced by every transition, compare-and-set
	Generation int64 // of the stored spec and of Funded, starts at 1
	Cost       int64
	Priority   int
	Model      modelspec.Model
	SpecHash   string // of what was first submitted, see Submission.Hash
	State      State
	Pool       string
	Node       string // where it was first placed, for people
	Held       int64  // slots held now, at least Cost × Funded
	Funded     int    // replicas that may run, as delivery is told; 0 unless reserved
	Submits    int64  // how often it was submitted with the same payload

	CreatedAt          time.Time
	ReservedAt         time.Time
	ReleaseRequestedAt time.Time
	ReleasedAt         time.Time
	ExpiresAt          time.Time
}

// Need is the number of slots that admission takes, or took.
func (r Reservation) Need() int64 { return slots(r.Cost, r.Model.Replicas.Funded()) }

// Tenant is who pays. Used never goes above Cap by a new reservation, but an
// admin may lower Cap below Used. Engines is the allow list of engines and
// source prefixes ("*" allows everything), Pools of pools beside "default".
// Limits bound its traffic and what it may ask for.
type Tenant struct {
	Name    string
	Cap     int64
	Used    int64
	Engines []string
	Pools   []string
	Limits  Limits
}

// Pool is a bucket of slots. Warm is what it keeps ready beyond what its models
// ask for, WarmDay what that cost today: whoever scales writes and reads it,
// the ledger only keeps it.
type Pool struct {
	Name    string
	Cap     int64
	Used    int64
	Warm    *modelspec.WarmPool // nil: nothing
	WarmDay string              // JSON; empty: nothing was counted yet
}

// Op is what a journal entry did.
type Op string

// The journal's operations.
const (
	OpReserve Op = "reserve"
	OpGrow    Op = "grow"
	OpShrink  Op = "shrink"
	OpRelease Op = "release"
)

// Entry is one debit (Slots > 0) or credit (Slots < 0); UNIQUE per
// (tenant, id, revision), so that a second one is impossible (INV6).
type Entry struct {
	Ref
	Seq      int64
	Pool     string
	Op       Op
	Revision int64
	Slots    int64
	At       time.Time
}

// IntentOp is what an outbox row asks the delivery target to do.
type IntentOp string

// The outbox operations.
const (
	Apply  IntentOp = "apply"
	Delete IntentOp = "delete"
)

// Intent is one outbox row: written in the transaction that decided it,
// delivered afterwards, possibly more than once.
type Intent struct {
	Ref
	Seq           int64
	Op            IntentOp
	Generation    int64
	Model         modelspec.Model
	Funded        int // replicas that may run
	Attempts      int64
	NextAttemptAt time.Time
	LeaseOwner    string
	LeaseUntil    time.Time
	DeliveredAt   time.Time
	LastError     string
}

// Object identifies what a reservation was delivered to.
type Object struct {
	Namespace string
	Name      string
	UID       string
}

// Binding says which object a reservation was delivered to and whether it was
// ever ready. No two reservations share a UID or an object name (INV3).
type Binding struct {
	Ref
	Object
	BoundAt      time.Time
	EverReady    bool
	FirstReadyAt time.Time
	GoneAt       time.Time
}

// Role of an API key.
type Role string

// The roles: a tenant acts for itself, a viewer reads all, an admin may all.
const (
	RoleTenant Role = "tenant"
	RoleViewer Role = "viewer"
	RoleAdmin  Role = "admin"
)

// APIKey is a credential as the ledger keeps it: only the hash of the secret.
type APIKey struct {
	ID         string
	Tenant     string // empty for admin and viewer
	Role       Role
	SecretHash [32]byte // SHA-256
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time
	LastUsedAt time.Time
}

// Live reports whether the key may be used at now.
func (k APIKey) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Session is a signed-in console; the ledger keeps the hash of its id.
type Session struct {
	IDHash    [32]byte
	KeyID     string
	CSRFToken string
	CreatedAt time.Time
	ExpiresAt time.Time
}
