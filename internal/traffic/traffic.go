// Package traffic holds the nouns of account 3: did the caller get the first
// response chunk? Nothing under traffic knows the ledger or delivery: it works
// on the last snapshot it was given, so that traffic survives an outage of
// the control plane.
package traffic

import "time"

// Key is a credential as a gateway knows it.
type Key struct {
	ID         string
	Tenant     string // empty for admin and viewer keys, which own no models
	Admin      bool
	SecretHash [32]byte  // SHA-256 of the secret part
	ExpiresAt  time.Time // zero: never; judged locally
}

// Model is one version of a served model.
type Model struct {
	Owner        string
	Name         string
	Version      string
	RequestID    string // the reservation's id
	ObjectUID    string
	Weight       int
	CreatedAt    time.Time
	WaitTimeout  time.Duration // how long a caller may wait for a replica
	MaxWaiting   int
	Simulated    bool
	Failure      string        // non-empty: it cannot load, waiters fail at once with this
	ExpectedAt   time.Time     // when a replica is expected to be ready; zero: unknown
	ReleaseAsked bool          // no new requests
	CacheTTL     time.Duration // how long its deterministic answers are kept; 0: they are not
	Asleep       bool          // no replica is wanted until somebody calls
	Pending      bool          // its budget is not granted yet: callers wait, lists leave it out
}

// GrantKey is one permission: Grantee may call Owner's Model.
type GrantKey struct {
	Owner   string
	Model   string
	Grantee string
}

// Rates are figures that a gateway counts against; zero is no limit.
type Rates struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrency       int64
	TokensPerDay      int64 // by the UTC calendar
}

// Limits are what the callers of one tenant may use.
type Limits struct {
	Together Rates // of all its keys
	PerKey   Rates // of each of its keys by itself
	// Window is how much of a minute's figure may come at once: its share of
	// so much time. Zero is the whole minute.
	Window   time.Duration
	MaxClass string // the highest priority class of its callers who wait; empty: any
}

// Snapshot is everything that a gateway decides by, immutable once published.
type Snapshot struct {
	Version uint64
	At      time.Time
	Ledger  string         // the incarnation of the ledger that it was taken of
	Keys    map[string]Key // by key id; revoked keys are absent
	Models  []Model
	Grants  map[GrantKey]struct{}
	// TakenBack has the grants that their owners ended, which keep a name from
	// meaning another owner's model.
	TakenBack map[GrantKey]struct{}
	Limits    map[string]Limits // by tenant; those without limits are absent
	// Crowded has the tenants of whose models that wait for budget only some
	// are in Models.
	Crowded map[string]struct{}
	// Owned has every name a tenant ever owned: such a name never resolves to
	// a grant.
	Owned map[string]map[string]struct{}
}

// Endpoint is a ready replica's address.
type Endpoint struct {
	UID       string // of the replica
	Owner     string
	Model     string
	Version   string
	RequestID string
	ObjectUID string
	Address   string // host:port
	Upstream  string // the model name that the engine serves
	Node      string
	Card      string
	CardModel string    // the class of its cards, for example "NVIDIA H200"; empty: not known
	Parallel  int       // requests that the engine runs at once; 0: not known
	Since     time.Time // seen as routable by this gateway
	// UserID is the user of this machine whose process must answer there; 0:
	// whoever does.
	UserID int
}

// Wake asks for a replica of a version that has callers and none ready. It may
// be repeated, and several gateways may send it: the receiver acts once per
// ObjectUID until a replica was ready.
type Wake struct {
	Owner     string
	Model     string
	Version   string
	RequestID string
	ObjectUID string
	Since     time.Time // the first caller came
}

// Outcome of an inference request: a closed list.
type Outcome string

// The outcomes.
const (
	Completed       Outcome = "completed"
	ClientCancelled Outcome = "client_cancelled"
	UpstreamCut     Outcome = "upstream_cut"
	UpstreamError   Outcome = "upstream_error"
	RejectedLimit   Outcome = "rejected_limit"
	RejectedFull    Outcome = "rejected_full"
	ExpiredWaiting  Outcome = "expired_waiting"
	NotFound        Outcome = "not_found"
	Forbidden       Outcome = "forbidden"
)

// Inference is the evidence record of one inference request. Zero times mean
// that the step was not reached.
type Inference struct {
	RequestID       string // ours, the x-request-id of the answer
	ClientRequestID string // what the client sent, never used as a key
	Tenant          string // the caller
	KeyID           string
	Owner           string
	Model           string // as resolved; as the caller typed it, shortened, where that names none
	Version         string
	ReservationID   string
	EndpointUID     string // of the replica that served
	ObjectUID       string
	Path            string
	Stream          bool
	Status          int
	Outcome         Outcome
	Error           string

	ReceivedAt     time.Time
	QueuedFor      time.Duration
	SentAt         time.Time // request written to the endpoint
	FirstByteAt    time.Time // upstream's response headers
	FirstContentAt time.Time // first chunk with content written and flushed to the caller
	LastByteAt     time.Time // latest bytes of the answer; never before FirstContentAt or after DoneAt
	DoneAt         time.Time // [DONE], or the whole body, written and flushed to the caller

	PromptTokens     int64 // 0: not reported
	CompletionTokens int64
}

// Chunk is the kept proof of a delivered first content chunk.
type Chunk struct {
	InferenceID string
	EndpointUID string
	Tenant      string // the caller
	SentAt      time.Time
	FirstByteAt time.Time
	At          time.Time // first content chunk flushed to the caller
	DoneAt      time.Time // zero: not finished
}

// Recorder takes evidence off the hot path. Record never blocks; what it had
// to drop it counts.
type Recorder interface {
	Record(i Inference)
}
