package backup

import (
	"fmt"
	"iter"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
)

// Contents counts what a copy holds.
type Contents struct{ Tenants, Pools, Reservations, Entries, Intents, Bindings, Keys, Grants, Audit, FirstChunks int }

// Check judges all rows without a ledger: that each can stand by itself, that
// none is there twice or refers to one that is not, and that every invariant
// holds. What is not right is a *budget.CopyRefusedError with all of it. What
// happened later than now, and numbers that no ledger can have given out until
// now, are not right.
func Check(head budget.CopyHead, rows iter.Seq2[budget.Row, error], now time.Time) (Contents, error) {
	c := &checker{
		head: head, now: now, most: budget.MostGivenOut(now), seen: map[string]bool{}, live: map[[3]string]string{},
		known: map[budget.Ref]known{}, secrets: map[[32]byte]string{}, last: map[string]int64{},
	}
	c.top()
	for r, err := range rows {
		if err != nil {
			return c.contents, err
		}
		c.row(r)
	}
	c.found = append(c.found, budget.Verify(c.rows).Violations...)
	if len(c.found) > 0 {
		return c.contents, &budget.CopyRefusedError{Violations: c.found}
	}
	return c.contents, nil
}

type checker struct {
	head     budget.CopyHead
	now      time.Time
	most     int64 // highest number that can have been given out
	contents Contents
	rows     budget.Snapshot // without models
	found    []budget.Violation
	seen     map[string]bool      // by subject
	live     map[[3]string]string // request that serves a model, by tenant, name and version
	known    map[budget.Ref]known // requests, as their outbox rows are compared with them
	secrets  map[[32]byte]string  // key, by the hash of its secret
	last     map[string]int64     // number of the latest row, by section
}

// known is what is kept of a request until its outbox rows come.
type known struct {
	open       bool // it has not ended
	generation int64
	model      budget.ModelPrint
}

func (c *checker) fail(subject, format string, args ...any) {
	c.found = append(c.found, budget.Violation{Invariant: "row", Subject: subject, Message: fmt.Sprintf(format, args...)})
}

// once notes a row, and fails one that is there twice.
func (c *checker) once(subject string) {
	if c.seen[subject] {
		c.fail(subject, "is there twice")
	}
	c.seen[subject] = true
}

// can fails a row for the first of these errors. What this program refuses
// where it is asked for it does not take from a copy either.
func (c *checker) can(subject string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			c.fail(subject, "cannot be: %v", err)
			return
		}
	}
}

// numbered fails numbers that do not grow from row to row.
func (c *checker) numbered(section, subject string, seq int64) {
	if seq < 1 || seq <= c.last[section] || seq > c.most {
		c.fail(subject, "has number %d after %d; numbers begin at 1 and grow, to %d at most, one for each microsecond since 1970", seq, c.last[section], c.most)
	}
	c.last[section] = max(seq, c.last[section])
}

func (c *checker) row(r budget.Row) {
	switch r := r.(type) {
	case budget.Tenant:
		c.contents.Tenants++
		c.rows.Tenants = append(c.rows.Tenants, budget.Tenant{Name: r.Name, Cap: r.Cap, Used: r.Used})
		c.once("tenant " + r.Name)
		c.can("tenant "+r.Name, budget.CheckCap("tenant", r.Name, r.Cap),
			budget.CheckAllow(r.Name, "engines", r.Engines), budget.CheckAllow(r.Name, "pools", r.Pools))
		if err := budget.CheckLimits(r.Name, r.Limits); err != nil {
			c.fail("tenant "+r.Name, "has limits that cannot be: %v", err)
		}
	case budget.Pool:
		c.contents.Pools++
		c.rows.Pools = append(c.rows.Pools, r)
		c.once("pool " + r.Name)
		c.can("pool "+r.Name, budget.CheckCap("pool", r.Name, r.Cap))
		if r.Warm != nil {
			if err := r.Warm.Validate(); err != nil {
				c.fail("pool "+r.Name, "keeps ready what cannot be: %v", err)
			}
		}
	case budget.Reservation:
		c.contents.Reservations++
		c.reservation(r)
		r.Model = modelspec.Model{}
		c.rows.Reservations = append(c.rows.Reservations, r)
	case budget.Entry:
		c.contents.Entries++
		c.entry(r)
		c.rows.Entries = append(c.rows.Entries, r)
	case budget.Intent:
		c.contents.Intents++
		c.intent(r)
		r.Model = modelspec.Model{}
		c.rows.Intents = append(c.rows.Intents, r)
	case budget.Binding:
		c.contents.Bindings++
		c.rows.Bindings = append(c.rows.Bindings, r)
		c.binding(r)
	case budget.APIKey:
		c.contents.Keys++
		c.key(r)
	case budget.Grant:
		c.contents.Grants++
		c.grant(r)
	case budget.EndedGrant:
		c.grant(r.Grant)
		c.past(grantOfNames(r.Grant), moment{"endedAt", r.EndedAt})
	case budget.AuditEntry:
		c.contents.Audit++
		c.audit(r)
	case evidence.Kept:
		c.contents.FirstChunks++
		c.chunks(r)
	}
}

func (c *checker) grant(g budget.Grant) {
	s := grantOfNames(g)
	c.once(s)
	c.can(s, g.Validate())
	c.past(s, moment{"at", g.At})
}

func grantOfNames(g budget.Grant) string {
	return fmt.Sprintf("grant of %s/%s to %s", g.Owner, g.Model, g.Grantee)
}

// binding judges names that targets gave: those of files and of objects.
func (c *checker) binding(b budget.Binding) {
	s := "binding of " + request(b.Ref)
	c.can(s, modelspec.CheckName("name", b.Name), modelspec.CheckName("uid", b.UID))
	if b.Namespace != "" {
		c.can(s, modelspec.CheckName("namespace", b.Namespace))
	}
	c.past(s, moment{"boundAt", b.BoundAt}, moment{"firstReadyAt", b.FirstReadyAt}, moment{"goneAt", b.GoneAt})
}

func request(ref budget.Ref) string { return "request " + ref.Tenant + "/" + ref.ID }

func (c *checker) reservation(r budget.Reservation) {
	s := request(r.Ref)
	c.once(s)
	c.numbered(reservations, s, r.Seq)
	c.long(s, 1, budget.MaxName, text{"model name", r.Model.Name}, text{"model version", r.Model.Version})
	c.long(s, 1, budget.MaxSpecHash, text{"specHash", r.SpecHash})
	c.long(s, 0, budget.MaxName, text{"node", r.Node})
	c.can(s, r.Validate(c.most))
	c.past(s, moment{"createdAt", r.CreatedAt}, moment{"reservedAt", r.ReservedAt}, moment{"releaseRequestedAt", r.ReleaseRequestedAt}, moment{"releasedAt", r.ReleasedAt})
	if !c.seen["tenant "+r.Tenant] || !c.seen["pool "+r.Pool] {
		c.fail(s, "belongs to tenant %q and pool %q, and one of them is not in the copy", r.Tenant, r.Pool)
	}
	c.known[r.Ref] = known{open: !r.State.Final(), generation: r.Generation, model: budget.PrintModel(r.Model)}
	if r.State.Final() {
		return
	}
	model := [3]string{r.Tenant, r.Model.Name, r.Model.Version}
	if other, taken := c.live[model]; taken {
		c.fail(s, "serves model %s@%s, which request %q of the tenant serves too", r.Model.Name, r.Model.Version, other)
	}
	c.live[model] = r.ID
}

func (c *checker) entry(r budget.Entry) {
	s := fmt.Sprintf("journal entry %d of %s", r.Seq, request(r.Ref))
	c.numbered(journal, s, r.Seq)
	switch r.Op {
	case budget.OpReserve, budget.OpGrow, budget.OpShrink, budget.OpRelease:
	default:
		c.fail(s, "has the unknown op %q", r.Op)
	}
	c.can(s, r.Validate(c.most))
	c.past(s, moment{"at", r.At})
	if r.Seq > c.head.JournalSeq {
		c.fail(s, "has a number above the copy's journalSeq %d", c.head.JournalSeq)
	}
}

func (c *checker) intent(r budget.Intent) {
	s := fmt.Sprintf("outbox row %d of %s", r.Seq, request(r.Ref))
	c.numbered(outbox, s, r.Seq)
	c.once(fmt.Sprintf("%s %d of %s", r.Op, r.Generation, request(r.Ref)))
	switch {
	case r.Op != budget.Apply && r.Op != budget.Delete:
		c.fail(s, "has the unknown op %q", r.Op)
	case r.Attempts < 0 || r.Attempts > c.most || r.Generation < 1 || r.Generation > c.most:
		c.fail(s, "has generation %d and %d attempts; generations begin at 1, attempts at 0, and neither goes above %d, one for each microsecond since 1970", r.Generation, r.Attempts, c.most)
	case (r.LeaseOwner == "") != r.LeaseUntil.IsZero() || (!r.DeliveredAt.IsZero() && r.LeaseOwner != ""):
		c.fail(s, "has half a lease, or is delivered and leased")
	}
	// Pauses and leases are minutes: they are bounded like what has happened.
	c.past(s, moment{"nextAttemptAt", r.NextAttemptAt}, moment{"leaseUntil", r.LeaseUntil}, moment{"deliveredAt", r.DeliveredAt})
	c.long(s, 0, budget.MaxName, text{"leaseOwner", r.LeaseOwner})
	of, there := c.known[r.Ref]
	if of.open || r.DeliveredAt.IsZero() { // else nothing comes of it any more
		c.can(s, r.Validate())
		if there {
			c.can(s, r.CheckOf(of.generation, of.model))
		}
	}
}

func (c *checker) key(r budget.APIKey) {
	s := "key " + r.ID
	c.once(s)
	c.can(s, r.Validate())
	c.past(s, moment{"createdAt", r.CreatedAt}, moment{"revokedAt", r.RevokedAt}, moment{"lastUsedAt", r.LastUsedAt})
	if other, taken := c.secrets[r.SecretHash]; taken {
		c.fail(s, "has the secret of key %s: each key has its own", other)
	}
	c.secrets[r.SecretHash] = r.ID
}
