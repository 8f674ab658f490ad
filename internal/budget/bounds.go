package budget

import "fmt"

// MaxSessions is how many consoles may be signed in with one key; one more
// signs out the one that signed in first.
const MaxSessions = 100

// MaxEndedGrants is how many grants that an owner took back are remembered;
// one more forgets the one that ended first. What a grantee declined stays.
const MaxEndedGrants = 10_000

// Counts are the rows that one tenant has caused.
type Counts struct {
	Waiting  int64
	Requests int64 // of all states: none is forgotten, because an id is used once
	Grants   int64 // of its own models, and those that were declined
}

// Bounds are the most rows that one tenant may cause. Whoever serves tenants
// asks before a submit or a grant; the ledger itself does not count at each
// insert, so that several askers at once may overshoot a little.
type Bounds Counts

// DefaultBounds are far beyond what a team needs, and what a ledger verifies
// in seconds.
func DefaultBounds() Bounds { return Bounds{Waiting: 10_000, Requests: 1_000_000, Grants: 10_000} }

// BoundError says that a tenant has as many rows as it may have. Nothing was
// changed.
type BoundError struct {
	Tenant string
	What   string // "waiting requests", "stored requests", "grants"
	Most   int64
	Next   string // what to do
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("tenant %s has %d %s, the most that one tenant may have here: %s", e.Tenant, e.Most, e.What, e.Next)
}

// Submit returns a *BoundError if a tenant with so many rows may not submit
// another request.
func (b Bounds) Submit(tenant string, have Counts) error {
	switch {
	case have.Waiting >= b.Waiting:
		return &BoundError{tenant, "waiting requests", b.Waiting, "release some, or wait until they are admitted or expire; whoever runs ModelDock can raise --max-waiting"}
	case have.Requests >= b.Requests:
		return &BoundError{tenant, "stored requests", b.Requests, "those that ended stay, because an id is used once; whoever runs ModelDock can raise --max-requests"}
	}
	return nil
}

// Grant is the same for another grant.
func (b Bounds) Grant(tenant string, have Counts) error {
	if have.Grants < b.Grants {
		return nil
	}
	return &BoundError{tenant, "grants", b.Grants, "take back those that nobody needs (modeldock grant list); those that were declined count, too"}
}
