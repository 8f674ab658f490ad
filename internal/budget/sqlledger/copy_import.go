package sqlledger

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/evidence"
)

// journalFloorKey names the number in the meta table that the journal's
// numbers are above, where that is more than its rows say.
const journalFloorKey = "journal-floor"

// LiftJournal makes the journal go on above seq.
func (l *Ledger) LiftJournal(ctx context.Context, seq int64) error {
	_, have, err := l.Identity(ctx)
	if err != nil || have >= seq {
		return err
	}
	if err := l.dialect.numberJournalAbove(ctx, l.write, seq); err != nil {
		return fmt.Errorf("lift the journal above %d: %w: %w", seq, budget.ErrUnavailable, err)
	}
	return l.touch(ctx, "lift the journal", func(ctx context.Context, t *transaction) error { return lift(ctx, t, seq) })
}

func lift(ctx context.Context, t *transaction, seq int64) error {
	have, err := readIdentity(ctx, t.q)
	if err != nil || have.seq >= seq {
		return err
	}
	if err := t.q.NumberJournalAbove(ctx, seq); err != nil {
		return fmt.Errorf("number the journal above %d: %w", seq, err)
	}
	return setMeta(ctx, t, journalFloorKey, strconv.FormatInt(seq, 10))
}

func setMeta(ctx context.Context, t *transaction, name, value string) error {
	if err := t.q.PutMetaOnce(ctx, sqlitequery.PutMetaOnceParams{Name: name, Value: value}); err != nil {
		return fmt.Errorf("write the ledger's %s: %w", name, err)
	}
	if _, err := t.q.SetMeta(ctx, sqlitequery.SetMetaParams{Name: name, Value: value}); err != nil {
		return fmt.Errorf("write the ledger's %s: %w", name, err)
	}
	return nil
}

// Import takes a copy in, in one transaction.
func (l *Ledger) Import(ctx context.Context, head budget.CopyHead, rows iter.Seq2[budget.Row, error], keep string) error {
	// Where numbers cannot be set in the transaction, a gap is left behind if it fails.
	if _, have, err := l.Identity(ctx); err != nil {
		return err
	} else if have < head.JournalSeq {
		if err := l.dialect.numberJournalAbove(ctx, l.write, head.JournalSeq); err != nil {
			return fmt.Errorf("import the ledger: %w: %w", budget.ErrUnavailable, err)
		}
	}
	return l.touch(ctx, "import the ledger", func(ctx context.Context, t *transaction) error {
		// 1. Only into an empty one, which is emptied of what it began with.
		if err := refuseUnlessEmpty(ctx, t); err != nil {
			return err
		}
		kept, err := emptied(ctx, t, keep)
		if err != nil {
			return err
		}
		// 2. Every row.
		for r, err := range rows {
			if err != nil {
				return refuse(err)
			}
			if k, ok := r.(budget.APIKey); ok && kept != nil && k.ID == kept.KeyID {
				kept = nil // the copy has it
			}
			if err := t.take(ctx, r); err != nil {
				return err
			}
		}
		if kept != nil {
			if err := t.q.CreateKey(ctx, *kept); err != nil {
				return fmt.Errorf("keep key %s: %w", kept.KeyID, err)
			}
		}
		// 3. Its identity.
		if err := setMeta(ctx, t, incarnationKey, head.Incarnation); err != nil {
			return err
		}
		if err := lift(ctx, t, head.JournalSeq); err != nil {
			return err
		}
		// 4. Nothing of it is committed unless all of it is right.
		snapshot, err := snapshotRows(ctx, t.q)
		if err != nil {
			return err
		}
		if rep := budget.Verify(snapshot); !rep.Clean() {
			return refuse(&budget.CopyRefusedError{Violations: rep.Violations})
		}
		t.changed("ledger", budget.Ref{}, 0)
		return nil
	})
}

func refuseUnlessEmpty(ctx context.Context, t *transaction) (err error) {
	var full budget.NotEmptyError
	if full.Reservations, err = t.q.CountReservations(ctx); err != nil {
		return fmt.Errorf("count the requests: %w", err)
	}
	if full.Entries, err = t.q.CountJournal(ctx); err != nil {
		return fmt.Errorf("count the journal: %w", err)
	}
	if full.Reservations > 0 || full.Entries > 0 {
		return refuse(&full)
	}
	return nil
}

// emptied drops what a new ledger begins with and returns the key to keep.
func emptied(ctx context.Context, t *transaction, keep string) (*sqlitequery.CreateKeyParams, error) {
	var kept *sqlitequery.CreateKeyParams
	row, err := t.q.GetKey(ctx, keep)
	switch {
	case err == nil:
		k := sqlitequery.CreateKeyParams(row)
		kept = &k
	case !absent(err):
		return nil, fmt.Errorf("read key %s: %w", keep, err)
	}
	for _, drop := range []func(context.Context) error{
		t.q.DropSessions, t.q.DropKeys, t.q.DropGrants, t.q.DropEndedGrants, t.q.DropChunks, func(ctx context.Context) error { return forgetAudit(ctx, t) }, t.q.DropTenants, t.q.DropPools,
	} {
		if err := drop(ctx); err != nil {
			return nil, fmt.Errorf("empty the ledger: %w", err)
		}
	}
	return kept, nil
}

// take writes one row; what the schema does not hold is the copy's fault.
func (t *transaction) take(ctx context.Context, r budget.Row) error {
	subject, err := t.write(ctx, r)
	if t.dialect.isConstraint(err) {
		return refuse(&budget.CopyRefusedError{Violations: []budget.Violation{{Invariant: "schema", Subject: subject, Message: "cannot be stored: " + err.Error()}}})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", subject, err)
	}
	return nil
}

func (t *transaction) write(ctx context.Context, r budget.Row) (subject string, err error) {
	switch r := r.(type) {
	case budget.Tenant:
		engines, pools, err := allowed(r)
		if err != nil {
			return "", err
		}
		limits, err := limitsText(r.Name, r.Limits)
		if err != nil {
			return "", err
		}
		return "tenant " + r.Name, t.q.CopyTenant(ctx, sqlitequery.CopyTenantParams{Tenant: r.Name, Cap: r.Cap, Used: r.Used, Engines: engines, Pools: pools, Limits: limits})
	case budget.Pool:
		warm, err := warmText(r.Name, r.Warm)
		if err != nil {
			return "", err
		}
		return "pool " + r.Name, t.q.CopyPool(ctx, sqlitequery.CopyPoolParams{Pool: r.Name, Cap: r.Cap, Used: r.Used, Warm: warm})
	case budget.Reservation:
		return requestOf(r.Ref), t.writeReservation(ctx, r)
	case budget.Entry:
		return fmt.Sprintf("journal entry %d of %s", r.Seq, requestOf(r.Ref)), t.q.CopyEntry(ctx, sqlitequery.CopyEntryParams{
			Seq: r.Seq, Tenant: r.Tenant, ID: r.ID, Pool: r.Pool, Op: string(r.Op), Revision: r.Revision, Slots: r.Slots, At: micros(r.At),
		})
	case budget.Intent:
		return fmt.Sprintf("outbox row %d of %s", r.Seq, requestOf(r.Ref)), t.writeIntent(ctx, r)
	case budget.Binding:
		return "binding of " + requestOf(r.Ref), t.q.CopyBinding(ctx, sqlitequery.CopyBindingParams{
			Tenant: r.Tenant, ID: r.ID, Namespace: r.Namespace, Name: r.Name, Uid: r.UID, BoundAt: micros(r.BoundAt),
			EverReady: flag(r.EverReady), FirstReadyAt: nullMicros(r.FirstReadyAt), GoneAt: nullMicros(r.GoneAt),
		})
	case budget.APIKey:
		return "key " + r.ID, t.q.CreateKey(ctx, sqlitequery.CreateKeyParams{
			KeyID: r.ID, Tenant: r.Tenant, Role: string(r.Role), SecretHash: r.SecretHash[:], CreatedAt: micros(r.CreatedAt),
			ExpiresAt: nullMicros(r.ExpiresAt), RevokedAt: nullMicros(r.RevokedAt), LastUsedAt: nullMicros(r.LastUsedAt),
		})
	case budget.Grant:
		return fmt.Sprintf("grant of %s/%s to %s", r.Owner, r.Model, r.Grantee), t.q.PutGrant(ctx, sqlitequery.PutGrantParams{Owner: r.Owner, Model: r.Model, Grantee: r.Grantee, At: micros(r.At)})
	case budget.EndedGrant:
		return fmt.Sprintf("grant of %s/%s to %s", r.Owner, r.Model, r.Grantee), t.q.EndGrant(ctx, endGrantParams(r))
	case budget.AuditEntry:
		return fmt.Sprintf("audit entry %d", r.Seq), t.q.CopyAudit(ctx, sqlitequery.CopyAuditParams{Seq: r.Seq, Who: r.Who, What: r.What, At: micros(r.When), Why: r.Why, Result: r.Result, Tenant: r.Tenant, Source: r.Source})
	case evidence.Kept:
		return "first chunk of " + requestOf(r.Ref), t.q.PutChunks(ctx, chunksRow(r.Ref, chunks{first: &r.First, latest: &r.Latest}))
	}
	return "", fmt.Errorf("a copy has a row of the unknown kind %T", r)
}

func requestOf(ref budget.Ref) string { return "request " + ref.Tenant + "/" + ref.ID }

func allowed(t budget.Tenant) (engines, pools string, err error) {
	for _, list := range []struct {
		names []string
		text  *string
	}{{t.Engines, &engines}, {t.Pools, &pools}} {
		if list.names == nil {
			list.names = []string{} // an array, never null
		}
		raw, err := json.Marshal(list.names)
		if err != nil {
			return "", "", fmt.Errorf("encode what tenant %s may use: %w", t.Name, err)
		}
		*list.text = string(raw)
	}
	return engines, pools, nil
}

func (t *transaction) writeReservation(ctx context.Context, r budget.Reservation) error {
	spec, err := json.Marshal(r.Model)
	if err != nil {
		return fmt.Errorf("encode the model of %s: %w", requestOf(r.Ref), err)
	}
	return t.q.CopyReservation(ctx, sqlitequery.CopyReservationParams{
		Seq: r.Seq, Tenant: r.Tenant, ID: r.ID, Revision: r.Revision, Generation: r.Generation, Cost: r.Cost, Priority: int64(r.Priority),
		Need: r.Need(), ModelName: r.Model.Name, ModelVersion: r.Model.Version, Spec: spec, SpecHash: r.SpecHash, State: string(r.State),
		Pool: r.Pool, Node: r.Node, Held: r.Held, Funded: int64(r.Funded), Submits: r.Submits, CreatedAt: micros(r.CreatedAt), ReservedAt: nullMicros(r.ReservedAt),
		ReleaseRequestedAt: nullMicros(r.ReleaseRequestedAt), ReleasedAt: nullMicros(r.ReleasedAt), ExpiresAt: micros(r.ExpiresAt),
	})
}

func (t *transaction) writeIntent(ctx context.Context, r budget.Intent) error {
	payload, err := json.Marshal(r.Model)
	if err != nil {
		return fmt.Errorf("encode the payload of outbox row %d: %w", r.Seq, err)
	}
	return t.q.CopyIntent(ctx, sqlitequery.CopyIntentParams{
		Seq: r.Seq, Tenant: r.Tenant, ID: r.ID, Op: string(r.Op), Generation: r.Generation, Payload: payload, Funded: int64(r.Funded),
		Attempts: r.Attempts, NextAttemptAt: micros(r.NextAttemptAt), LeaseOwner: text(r.LeaseOwner), LeaseUntil: nullMicros(r.LeaseUntil),
		DeliveredAt: nullMicros(r.DeliveredAt), LastError: text(r.LastError),
	})
}
