package backup

import (
	"encoding/hex"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/strictjson"
	"modeldock.io/internal/traffic"
)

// moments reads the times of one row and remembers the first that is none.
type moments struct{ err error }

func (m *moments) read(field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%s %q is not a time like 2006-01-02T15:04:05.000000Z", field, text)
	}
	return t.UTC().Truncate(time.Microsecond)
}

// must is read for a time that every row has.
func (m *moments) must(field, text string) time.Time {
	t := m.read(field, text)
	if t.IsZero() && m.err == nil {
		m.err = fmt.Errorf("%s is empty, or no time at all", field)
	}
	return t
}

// decoder reads one row's JSON strictly into the ledger's noun.
func decoder(section string) func(raw []byte) (budget.Row, error) {
	switch section {
	case tenants:
		return strictly(func(r tenantRow, _ *moments) budget.Row {
			t := budget.Tenant{Name: r.Tenant, Cap: r.Cap, Used: r.Used, Engines: r.Engines, Pools: r.Pools}
			if r.Limits != nil {
				t.Limits = *r.Limits
			}
			return t
		})
	case pools:
		return strictly(func(r poolRow, _ *moments) budget.Row {
			return budget.Pool{Name: r.Pool, Cap: r.Cap, Used: r.Used, Warm: r.Warm}
		})
	case reservations:
		return strictly(reservationOf)
	case journal:
		return strictly(func(r entryRow, m *moments) budget.Row {
			return budget.Entry{Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, Seq: r.Seq, Pool: r.Pool, Op: budget.Op(r.Op), Revision: r.Revision, Slots: r.Slots, At: m.must("at", r.At)}
		})
	case outbox:
		return strictly(intentOf)
	case bindings:
		return strictly(bindingOf)
	case keys:
		return strictly(keyOf)
	case grants:
		return strictly(grantOf)
	case audit:
		return strictly(func(r auditRow, m *moments) budget.Row {
			return budget.AuditEntry{Seq: r.Seq, Who: r.Who, What: r.What, When: m.must("when", r.When), Why: r.Why, Result: r.Result, Tenant: r.Tenant, Source: r.Source}
		})
	default:
		return strictly(func(r keptRow, m *moments) budget.Row {
			return evidence.Kept{Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, First: chunkOf(r.First, m), Latest: chunkOf(r.Latest, m)}
		})
	}
}

func strictly[T any](noun func(T, *moments) budget.Row) func([]byte) (budget.Row, error) {
	return func(raw []byte) (budget.Row, error) {
		var wire T
		if err := strictjson.Decode(raw, &wire); err != nil {
			return nil, err
		}
		var m moments
		row := noun(wire, &m)
		return row, m.err
	}
}

func grantOf(r grantRow, m *moments) budget.Row {
	g := budget.Grant{Owner: r.Owner, Model: r.Model, Grantee: r.Grantee, At: m.must("at", r.At)}
	if r.EndedAt == "" && !r.Declined {
		return g
	}
	return budget.EndedGrant{Grant: g, EndedAt: m.must("endedAt", r.EndedAt), Declined: r.Declined}
}

func reservationOf(r reservationRow, m *moments) budget.Row {
	return budget.Reservation{
		Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, Seq: r.Seq, Revision: r.Revision, Generation: r.Generation,
		Cost: r.Cost, Priority: r.Priority, Model: r.Model, SpecHash: r.SpecHash, State: budget.State(r.State),
		Pool: r.Pool, Node: r.Node, Held: r.Held, Funded: r.Funded, Submits: r.Submits,
		CreatedAt: m.must("createdAt", r.CreatedAt), ReservedAt: m.read("reservedAt", r.ReservedAt),
		ReleaseRequestedAt: m.read("releaseRequestedAt", r.ReleaseRequestedAt), ReleasedAt: m.read("releasedAt", r.ReleasedAt),
		ExpiresAt: m.must("expiresAt", r.ExpiresAt),
	}
}

func intentOf(r intentRow, m *moments) budget.Row {
	return budget.Intent{
		Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, Seq: r.Seq, Op: budget.IntentOp(r.Op), Generation: r.Generation,
		Model: r.Model, Funded: r.Funded, Attempts: r.Attempts, NextAttemptAt: m.must("nextAttemptAt", r.NextAttemptAt),
		LeaseOwner: r.LeaseOwner, LeaseUntil: m.read("leaseUntil", r.LeaseUntil),
		DeliveredAt: m.read("deliveredAt", r.DeliveredAt), LastError: budget.IntentError(r.LastError),
	}
}

func bindingOf(r bindingRow, m *moments) budget.Row {
	return budget.Binding{
		Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, Object: budget.Object{Namespace: r.Namespace, Name: r.Name, UID: r.UID},
		BoundAt: m.must("boundAt", r.BoundAt), EverReady: r.FirstReadyAt != "", FirstReadyAt: m.read("firstReadyAt", r.FirstReadyAt),
		GoneAt: m.read("goneAt", r.GoneAt),
	}
}

func keyOf(r keyRow, m *moments) budget.Row {
	k := budget.APIKey{
		ID: r.ID, Tenant: r.Tenant, Role: budget.Role(r.Role), CreatedAt: m.must("createdAt", r.CreatedAt),
		ExpiresAt: m.read("expiresAt", r.ExpiresAt), RevokedAt: m.read("revokedAt", r.RevokedAt), LastUsedAt: m.read("lastUsedAt", r.LastUsedAt),
	}
	hash, err := hex.DecodeString(r.SecretHash)
	if copy(k.SecretHash[:], hash); (err != nil || len(hash) != len(k.SecretHash)) && m.err == nil {
		m.err = fmt.Errorf("secretSha256 must be %d hexadecimal digits", 2*len(k.SecretHash))
	}
	return k
}

func chunkOf(c chunkRow, m *moments) traffic.Chunk {
	return traffic.Chunk{
		InferenceID: c.RequestID, EndpointUID: c.EndpointUID, Tenant: c.Caller, SentAt: m.read("sentAt", c.SentAt),
		FirstByteAt: m.read("firstByteAt", c.FirstByteAt), At: m.must("at", c.At), DoneAt: m.read("doneAt", c.DoneAt),
	}
}
