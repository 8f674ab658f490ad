package budget

import "time"

// DefaultHeadWait is how long a blocked request lets smaller ones pass.
const DefaultHeadWait = 60 * time.Second

// Reason says why a waiting request waits. It is derived when it is read.
type Reason string

// The reasons. ExceedsQuota and ExceedsPool could never fit at present caps;
// AwaitingAdmission fits and is taken by the next admission round; TTLElapsed
// waited too long and is expired by the next round.
const (
	QuotaBlocked      Reason = "QuotaBlocked"
	PoolBlocked       Reason = "PoolBlocked"
	ExceedsQuota      Reason = "ExceedsQuota"
	ExceedsPool       Reason = "ExceedsPool"
	QueuedBehind      Reason = "QueuedBehind"
	AwaitingAdmission Reason = "AwaitingAdmission"
	TTLElapsed        Reason = "TTLElapsed"
)

// Standing is where a waiting request stands, with the figures that make its
// reason checkable.
type Standing struct {
	Reason     Reason
	Message    string // for example "tenant team-a holds 2 of 2 slots; this request needs 1"
	Need       int64
	TenantUsed int64
	TenantCap  int64
	Pool       string
	PoolUsed   int64
	PoolCap    int64
	Behind     *Ref // the request that capacity is kept for, where Reason is QueuedBehind
	Ahead      int  // waiting requests of the pool before this one in the published order
}
