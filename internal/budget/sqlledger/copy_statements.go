package sqlledger

import (
	"context"

	"modeldock.io/internal/budget/sqlledger/mysqlquery"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// copyStatements are the queries that write whole ledgers out and in; both
// dialects have them by the same name.
type copyStatements interface {
	CountReservations(ctx context.Context) (int64, error)
	CountJournal(ctx context.Context) (int64, error)
	JournalAfter(ctx context.Context, arg sqlitequery.JournalAfterParams) ([]sqlitequery.Journal, error)
	OutboxAfter(ctx context.Context, arg sqlitequery.OutboxAfterParams) ([]sqlitequery.Outbox, error)
	AuditAfter(ctx context.Context, arg sqlitequery.AuditAfterParams) ([]sqlitequery.Audit, error)
	BindingsAfter(ctx context.Context, arg sqlitequery.BindingsAfterParams) ([]sqlitequery.Binding, error)
	ChunksAfter(ctx context.Context, arg sqlitequery.ChunksAfterParams) ([]sqlitequery.FirstChunk, error)
	CopyTenant(ctx context.Context, arg sqlitequery.CopyTenantParams) error
	CopyPool(ctx context.Context, arg sqlitequery.CopyPoolParams) error
	CopyReservation(ctx context.Context, arg sqlitequery.CopyReservationParams) error
	CopyEntry(ctx context.Context, arg sqlitequery.CopyEntryParams) error
	CopyIntent(ctx context.Context, arg sqlitequery.CopyIntentParams) error
	CopyBinding(ctx context.Context, arg sqlitequery.CopyBindingParams) error
	CopyAudit(ctx context.Context, arg sqlitequery.CopyAuditParams) error
	DropSessions(ctx context.Context) error
	DropKeys(ctx context.Context) error
	DropGrants(ctx context.Context) error
	DropEndedGrants(ctx context.Context) error
	DropChunks(ctx context.Context) error
	DropAudit(ctx context.Context) error
	DropTenants(ctx context.Context) error
	DropPools(ctx context.Context) error
	SetMeta(ctx context.Context, arg sqlitequery.SetMetaParams) (int64, error)
}

// MySQL's side, whose types are SQLite's field for field but for the LIMIT.

func (m *mysqlQueries) CountReservations(ctx context.Context) (int64, error) {
	return m.q.CountReservations(ctx)
}

func (m *mysqlQueries) CountJournal(ctx context.Context) (int64, error) { return m.q.CountJournal(ctx) }

func (m *mysqlQueries) JournalAfter(ctx context.Context, arg sqlitequery.JournalAfterParams) ([]sqlitequery.Journal, error) {
	return each(func(r mysqlquery.JournalAfterRow) sqlitequery.Journal { return sqlitequery.Journal(r) })(
		m.q.JournalAfter(ctx, mysqlquery.JournalAfterParams{Seq: arg.Seq, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) OutboxAfter(ctx context.Context, arg sqlitequery.OutboxAfterParams) ([]sqlitequery.Outbox, error) {
	return each(func(r mysqlquery.Outbox) sqlitequery.Outbox { return sqlitequery.Outbox(r) })(
		m.q.OutboxAfter(ctx, mysqlquery.OutboxAfterParams{Seq: arg.Seq, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) AuditAfter(ctx context.Context, arg sqlitequery.AuditAfterParams) ([]sqlitequery.Audit, error) {
	return each(func(r mysqlquery.Audit) sqlitequery.Audit { return sqlitequery.Audit(r) })(
		m.q.AuditAfter(ctx, mysqlquery.AuditAfterParams{Seq: arg.Seq, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) BindingsAfter(ctx context.Context, arg sqlitequery.BindingsAfterParams) ([]sqlitequery.Binding, error) {
	return each(func(r mysqlquery.Binding) sqlitequery.Binding { return sqlitequery.Binding(r) })(
		m.q.BindingsAfter(ctx, mysqlquery.BindingsAfterParams{Tenant: arg.Tenant, Tenant_2: arg.Tenant_2, ID: arg.ID, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) ChunksAfter(ctx context.Context, arg sqlitequery.ChunksAfterParams) ([]sqlitequery.FirstChunk, error) {
	return each(func(r mysqlquery.FirstChunk) sqlitequery.FirstChunk { return sqlitequery.FirstChunk(r) })(
		m.q.ChunksAfter(ctx, mysqlquery.ChunksAfterParams{Tenant: arg.Tenant, Tenant_2: arg.Tenant_2, ID: arg.ID, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) CopyTenant(ctx context.Context, arg sqlitequery.CopyTenantParams) error {
	return m.q.CopyTenant(ctx, mysqlquery.CopyTenantParams(arg))
}

func (m *mysqlQueries) CopyPool(ctx context.Context, arg sqlitequery.CopyPoolParams) error {
	return m.q.CopyPool(ctx, mysqlquery.CopyPoolParams(arg))
}

func (m *mysqlQueries) CopyReservation(ctx context.Context, arg sqlitequery.CopyReservationParams) error {
	return m.q.CopyReservation(ctx, mysqlquery.CopyReservationParams(arg))
}

func (m *mysqlQueries) CopyEntry(ctx context.Context, arg sqlitequery.CopyEntryParams) error {
	return m.q.CopyEntry(ctx, mysqlquery.CopyEntryParams(arg))
}

func (m *mysqlQueries) CopyIntent(ctx context.Context, arg sqlitequery.CopyIntentParams) error {
	return m.q.CopyIntent(ctx, mysqlquery.CopyIntentParams(arg))
}

func (m *mysqlQueries) CopyBinding(ctx context.Context, arg sqlitequery.CopyBindingParams) error {
	return m.q.CopyBinding(ctx, mysqlquery.CopyBindingParams(arg))
}

func (m *mysqlQueries) CopyAudit(ctx context.Context, arg sqlitequery.CopyAuditParams) error {
	return m.q.CopyAudit(ctx, mysqlquery.CopyAuditParams(arg))
}

func (m *mysqlQueries) DropSessions(ctx context.Context) error { return m.q.DropSessions(ctx) }

func (m *mysqlQueries) DropKeys(ctx context.Context) error { return m.q.DropKeys(ctx) }

func (m *mysqlQueries) DropGrants(ctx context.Context) error { return m.q.DropGrants(ctx) }

func (m *mysqlQueries) DropEndedGrants(ctx context.Context) error { return m.q.DropEndedGrants(ctx) }

func (m *mysqlQueries) DropChunks(ctx context.Context) error { return m.q.DropChunks(ctx) }

func (m *mysqlQueries) DropAudit(ctx context.Context) error { return m.q.DropAudit(ctx) }

func (m *mysqlQueries) DropTenants(ctx context.Context) error { return m.q.DropTenants(ctx) }

func (m *mysqlQueries) DropPools(ctx context.Context) error { return m.q.DropPools(ctx) }

func (m *mysqlQueries) SetMeta(ctx context.Context, arg sqlitequery.SetMetaParams) (int64, error) {
	return m.q.SetMeta(ctx, mysqlquery.SetMetaParams(arg))
}

// NumberJournalAbove: it was done before the transaction.
func (m *mysqlQueries) NumberJournalAbove(context.Context, int64) error { return nil }
