package budget

import (
	"fmt"
	"time"
)

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

	grounds grounds // of a standing that is not Explained
}

// grounds are what the words of a standing need beside its figures.
type grounds struct {
	tenant               string
	tenantMore, poolMore int64     // what goes to requests ahead
	head                 *Request  // that capacity is kept for; nil: for none
	ofPool               bool      // the pool's, not the tenant's
	expires              time.Time // the end of its time to live
}

// Explained returns the standing of a walk with its words, and with whom it is
// behind.
func (s Standing) Explained() Standing {
	g := s.grounds
	s.grounds = grounds{}
	tenant := holding("tenant", g.tenant, s.TenantUsed, s.TenantCap, g.tenantMore)
	pool := holding("pool", s.Pool, s.PoolUsed, s.PoolCap, g.poolMore)
	switch s.Reason {
	case TTLElapsed:
		s.Message = fmt.Sprintf("waited past its time to live, which ended at %s; the next round expires it", g.expires.UTC().Format(time.RFC3339))
	case ExceedsQuota:
		s.Message = fmt.Sprintf("this request needs %d slots; tenant %s may hold %d in all: ask for a higher quota, or submit a smaller request", s.Need, g.tenant, s.TenantCap)
	case ExceedsPool:
		s.Message = fmt.Sprintf("this request needs %d slots; pool %s has %d in all: choose a larger pool, or submit a smaller request", s.Need, s.Pool, s.PoolCap)
	case QuotaBlocked:
		s.Message = fmt.Sprintf("%s; this request needs %d", tenant, s.Need)
	case PoolBlocked:
		s.Message = fmt.Sprintf("%s; this request needs %d", pool, s.Need)
	case QueuedBehind:
		kept := tenant
		if g.ofPool {
			kept = pool
		}
		s.Behind = &Ref{Tenant: g.head.Tenant, ID: g.head.ID}
		s.Message = fmt.Sprintf("%s, and what comes free is kept for a request ahead that needs %d and waits since %s; this request needs %d",
			kept, g.head.Need, g.head.CreatedAt.UTC().Format(time.RFC3339), s.Need)
	case AwaitingAdmission:
		s.Message = fmt.Sprintf("%s, %s; this request needs %d and is taken by the next admission round", tenant, pool, s.Need)
	}
	return s
}

// holding tells what a tenant or a pool holds, in the words of a message.
func holding(kind, name string, used, limit, more int64) string {
	s := fmt.Sprintf("%s %s holds %d of %d slots", kind, name, used, limit)
	if more > 0 {
		s += fmt.Sprintf(" and %d more go to requests ahead", more)
	}
	return s
}
