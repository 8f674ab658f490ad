package sqlledger

import (
	"context"

	"modeldock.io/internal/budget/sqlledger/mysqlquery"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// mysqlQueries says in MySQL what the rules ask. In this file stand the
// queries whose generated types are SQLite's field for field: the compiler
// checks that by the conversions.
type mysqlQueries struct {
	q  *mysqlquery.Queries
	db sqlitequery.DBTX
}

var _ queries = (*mysqlQueries)(nil)

// each converts the rows of an answer.
func each[A, B any](convert func(A) B) func([]A, error) ([]B, error) {
	return func(rows []A, err error) ([]B, error) {
		if err != nil {
			return nil, err
		}
		out := make([]B, 0, len(rows))
		for _, row := range rows {
			out = append(out, convert(row))
		}
		return out, nil
	}
}

func (m *mysqlQueries) AllBindings(ctx context.Context) ([]sqlitequery.Binding, error) {
	return each(func(r mysqlquery.Binding) sqlitequery.Binding { return sqlitequery.Binding(r) })(m.q.AllBindings(ctx))
}

func (m *mysqlQueries) AllJournal(ctx context.Context) ([]sqlitequery.Journal, error) {
	return each(func(r mysqlquery.AllJournalRow) sqlitequery.Journal { return sqlitequery.Journal(r) })(m.q.AllJournal(ctx))
}

func (m *mysqlQueries) AppendAudit(ctx context.Context, arg sqlitequery.AppendAuditParams) error {
	return m.q.AppendAudit(ctx, mysqlquery.AppendAuditParams(arg))
}

func (m *mysqlQueries) AppendJournal(ctx context.Context, arg sqlitequery.AppendJournalParams) error {
	return m.q.AppendJournal(ctx, mysqlquery.AppendJournalParams(arg))
}

func (m *mysqlQueries) BindingsByObject(ctx context.Context, arg sqlitequery.BindingsByObjectParams) ([]sqlitequery.Binding, error) {
	return each(func(r mysqlquery.Binding) sqlitequery.Binding { return sqlitequery.Binding(r) })(m.q.BindingsByObject(ctx, mysqlquery.BindingsByObjectParams(arg)))
}

func (m *mysqlQueries) CountDeclined(ctx context.Context, owner string) (int64, error) {
	return m.q.CountDeclined(ctx, owner)
}

func (m *mysqlQueries) CountGrants(ctx context.Context, owner string) (int64, error) {
	return m.q.CountGrants(ctx, owner)
}

func (m *mysqlQueries) CountRequests(ctx context.Context, tenant string) (int64, error) {
	return m.q.CountRequests(ctx, tenant)
}

func (m *mysqlQueries) CountWaiting(ctx context.Context, tenant string) (int64, error) {
	return m.q.CountWaiting(ctx, tenant)
}

func (m *mysqlQueries) CountSubmit(ctx context.Context, arg sqlitequery.CountSubmitParams) (int64, error) {
	return m.q.CountSubmit(ctx, mysqlquery.CountSubmitParams(arg))
}

func (m *mysqlQueries) CreateKey(ctx context.Context, arg sqlitequery.CreateKeyParams) error {
	return m.q.CreateKey(ctx, mysqlquery.CreateKeyParams(arg))
}

func (m *mysqlQueries) CreateSession(ctx context.Context, arg sqlitequery.CreateSessionParams) error {
	return m.q.CreateSession(ctx, mysqlquery.CreateSessionParams(arg))
}

func (m *mysqlQueries) DeferIntent(ctx context.Context, arg sqlitequery.DeferIntentParams) (int64, error) {
	return m.q.DeferIntent(ctx, mysqlquery.DeferIntentParams(arg))
}

func (m *mysqlQueries) DeleteGrant(ctx context.Context, arg sqlitequery.DeleteGrantParams) (int64, error) {
	return m.q.DeleteGrant(ctx, mysqlquery.DeleteGrantParams(arg))
}

func (m *mysqlQueries) DropMeta(ctx context.Context, name string) error {
	return m.q.DropMeta(ctx, name)
}

func (m *mysqlQueries) DeleteSession(ctx context.Context, idHash []byte) (int64, error) {
	return m.q.DeleteSession(ctx, idHash)
}

func (m *mysqlQueries) DropOtherAudit(ctx context.Context, seq int64) (int64, error) {
	return m.q.DropOtherAudit(ctx, seq)
}

func (m *mysqlQueries) DropTenantAudit(ctx context.Context, arg sqlitequery.DropTenantAuditParams) (int64, error) {
	return m.q.DropTenantAudit(ctx, mysqlquery.DropTenantAuditParams(arg))
}

func (m *mysqlQueries) OneTenantAuditFrom(ctx context.Context, arg sqlitequery.OneTenantAuditFromParams) ([]int64, error) {
	return m.q.OneTenantAuditFrom(ctx, mysqlquery.OneTenantAuditFromParams{Tenant: arg.Tenant, Limit: limit32(arg.Limit), Offset: limit32(arg.Offset)})
}

func (m *mysqlQueries) TenantAuditHolders(ctx context.Context) ([]sqlitequery.TenantAuditHoldersRow, error) {
	return each(func(r mysqlquery.TenantAuditHoldersRow) sqlitequery.TenantAuditHoldersRow {
		return sqlitequery.TenantAuditHoldersRow(r)
	})(m.q.TenantAuditHolders(ctx))
}

func (m *mysqlQueries) OtherAuditFrom(ctx context.Context, arg sqlitequery.OtherAuditFromParams) ([]int64, error) {
	return m.q.OtherAuditFrom(ctx, mysqlquery.OtherAuditFromParams{Limit: limit32(arg.Limit), Offset: limit32(arg.Offset)})
}

func (m *mysqlQueries) TenantAuditFrom(ctx context.Context, arg sqlitequery.TenantAuditFromParams) ([]int64, error) {
	return m.q.TenantAuditFrom(ctx, mysqlquery.TenantAuditFromParams{Limit: limit32(arg.Limit), Offset: limit32(arg.Offset)})
}

func (m *mysqlQueries) DropSessionsUntil(ctx context.Context, arg sqlitequery.DropSessionsUntilParams) (int64, error) {
	return m.q.DropSessionsUntil(ctx, mysqlquery.DropSessionsUntilParams(arg))
}

func (m *mysqlQueries) DropExpiredSessions(ctx context.Context, expiresAt int64) (int64, error) {
	return m.q.DropExpiredSessions(ctx, expiresAt)
}

func (m *mysqlQueries) GetBinding(ctx context.Context, arg sqlitequery.GetBindingParams) (sqlitequery.Binding, error) {
	row, err := m.q.GetBinding(ctx, mysqlquery.GetBindingParams(arg))
	return sqlitequery.Binding(row), err
}

func (m *mysqlQueries) GetChunks(ctx context.Context, arg sqlitequery.GetChunksParams) (sqlitequery.FirstChunk, error) {
	row, err := m.q.GetChunks(ctx, mysqlquery.GetChunksParams(arg))
	return sqlitequery.FirstChunk(row), err
}

func (m *mysqlQueries) GetInference(ctx context.Context, requestID string) (sqlitequery.Inference, error) {
	row, err := m.q.GetInference(ctx, requestID)
	return sqlitequery.Inference(row), err
}

func (m *mysqlQueries) GetIntent(ctx context.Context, arg sqlitequery.GetIntentParams) (sqlitequery.Outbox, error) {
	row, err := m.q.GetIntent(ctx, mysqlquery.GetIntentParams(arg))
	return sqlitequery.Outbox(row), err
}

func (m *mysqlQueries) GetKey(ctx context.Context, keyID string) (sqlitequery.ApiKey, error) {
	row, err := m.q.GetKey(ctx, keyID)
	return sqlitequery.ApiKey(row), err
}

func (m *mysqlQueries) GetMeta(ctx context.Context, name string) (string, error) {
	return m.q.GetMeta(ctx, name)
}

func (m *mysqlQueries) GetPool(ctx context.Context, pool string) (sqlitequery.GpuPool, error) {
	row, err := m.q.GetPool(ctx, pool)
	return sqlitequery.GpuPool(row), err
}

func (m *mysqlQueries) GetReservation(ctx context.Context, arg sqlitequery.GetReservationParams) (sqlitequery.Reservation, error) {
	row, err := m.q.GetReservation(ctx, mysqlquery.GetReservationParams(arg))
	return sqlitequery.Reservation(row), err
}

func (m *mysqlQueries) GetSession(ctx context.Context, arg sqlitequery.GetSessionParams) (sqlitequery.Session, error) {
	row, err := m.q.GetSession(ctx, mysqlquery.GetSessionParams(arg))
	return sqlitequery.Session(row), err
}

func (m *mysqlQueries) GetTenant(ctx context.Context, tenant string) (sqlitequery.TenantQuotum, error) {
	row, err := m.q.GetTenant(ctx, tenant)
	return sqlitequery.TenantQuotum(row), err
}

func (m *mysqlQueries) GivePoolSlots(ctx context.Context, arg sqlitequery.GivePoolSlotsParams) (int64, error) {
	return m.q.GivePoolSlots(ctx, mysqlquery.GivePoolSlotsParams(arg))
}

func (m *mysqlQueries) GiveTenantSlots(ctx context.Context, arg sqlitequery.GiveTenantSlotsParams) (int64, error) {
	return m.q.GiveTenantSlots(ctx, mysqlquery.GiveTenantSlotsParams(arg))
}

func (m *mysqlQueries) InsertBinding(ctx context.Context, arg sqlitequery.InsertBindingParams) error {
	return m.q.InsertBinding(ctx, mysqlquery.InsertBindingParams(arg))
}

func (m *mysqlQueries) IntendApply(ctx context.Context, arg sqlitequery.IntendApplyParams) (int64, error) {
	return m.q.IntendApply(ctx, mysqlquery.IntendApplyParams(arg))
}

func (m *mysqlQueries) IntendDelete(ctx context.Context, arg sqlitequery.IntendDeleteParams) (int64, error) {
	return m.q.IntendDelete(ctx, mysqlquery.IntendDeleteParams(arg))
}

func (m *mysqlQueries) IntentsOf(ctx context.Context, arg sqlitequery.IntentsOfParams) ([]sqlitequery.Outbox, error) {
	return each(func(r mysqlquery.Outbox) sqlitequery.Outbox { return sqlitequery.Outbox(r) })(m.q.IntentsOf(ctx, mysqlquery.IntentsOfParams(arg)))
}

func (m *mysqlQueries) JournalOf(ctx context.Context, arg sqlitequery.JournalOfParams) ([]sqlitequery.Journal, error) {
	return each(func(r mysqlquery.JournalOfRow) sqlitequery.Journal { return sqlitequery.Journal(r) })(m.q.JournalOf(ctx, mysqlquery.JournalOfParams(arg)))
}

func (m *mysqlQueries) ListGrants(ctx context.Context) ([]sqlitequery.ModelGrant, error) {
	return each(func(r mysqlquery.ModelGrant) sqlitequery.ModelGrant { return sqlitequery.ModelGrant(r) })(m.q.ListGrants(ctx))
}

func (m *mysqlQueries) ListEndedGrants(ctx context.Context) ([]sqlitequery.EndedGrant, error) {
	return each(func(r mysqlquery.EndedGrant) sqlitequery.EndedGrant { return sqlitequery.EndedGrant(r) })(m.q.ListEndedGrants(ctx))
}

func (m *mysqlQueries) GrantedAt(ctx context.Context, arg sqlitequery.GrantedAtParams) (int64, error) {
	return m.q.GrantedAt(ctx, mysqlquery.GrantedAtParams(arg))
}

func (m *mysqlQueries) EndGrant(ctx context.Context, arg sqlitequery.EndGrantParams) error {
	return m.q.EndGrant(ctx, mysqlquery.EndGrantParams(arg))
}

func (m *mysqlQueries) DeclineEndedGrant(ctx context.Context, arg sqlitequery.DeclineEndedGrantParams) (int64, error) {
	return m.q.DeclineEndedGrant(ctx, mysqlquery.DeclineEndedGrantParams(arg))
}

func (m *mysqlQueries) DeclinedAt(ctx context.Context, arg sqlitequery.DeclinedAtParams) (int64, error) {
	return m.q.DeclinedAt(ctx, mysqlquery.DeclinedAtParams(arg))
}

func (m *mysqlQueries) DropEndedGrant(ctx context.Context, arg sqlitequery.DropEndedGrantParams) (int64, error) {
	return m.q.DropEndedGrant(ctx, mysqlquery.DropEndedGrantParams(arg))
}

func (m *mysqlQueries) DropEndedGrantsUntil(ctx context.Context, arg sqlitequery.DropEndedGrantsUntilParams) (int64, error) {
	return m.q.DropEndedGrantsUntil(ctx, mysqlquery.DropEndedGrantsUntilParams(arg))
}

func (m *mysqlQueries) EndedGrantBeyond(ctx context.Context, arg sqlitequery.EndedGrantBeyondParams) ([]int64, error) {
	return m.q.EndedGrantBeyond(ctx, mysqlquery.EndedGrantBeyondParams{Owner: arg.Owner, Offset: int32(arg.Offset)}) //nolint:gosec // a constant
}

func (m *mysqlQueries) ListKeys(ctx context.Context) ([]sqlitequery.ApiKey, error) {
	return each(func(r mysqlquery.ApiKey) sqlitequery.ApiKey { return sqlitequery.ApiKey(r) })(m.q.ListKeys(ctx))
}

func (m *mysqlQueries) ListPools(ctx context.Context) ([]sqlitequery.GpuPool, error) {
	return each(func(r mysqlquery.GpuPool) sqlitequery.GpuPool { return sqlitequery.GpuPool(r) })(m.q.ListPools(ctx))
}

func (m *mysqlQueries) ListTenants(ctx context.Context) ([]sqlitequery.TenantQuotum, error) {
	return each(func(r mysqlquery.TenantQuotum) sqlitequery.TenantQuotum { return sqlitequery.TenantQuotum(r) })(m.q.ListTenants(ctx))
}

func (m *mysqlQueries) LedgerIdentity(ctx context.Context, arg sqlitequery.LedgerIdentityParams) (sqlitequery.LedgerIdentityRow, error) {
	row, err := m.q.LedgerIdentity(ctx, mysqlquery.LedgerIdentityParams(arg))
	return sqlitequery.LedgerIdentityRow(row), err
}

func (m *mysqlQueries) LiveBindings(ctx context.Context) ([]sqlitequery.Binding, error) {
	return each(func(r mysqlquery.Binding) sqlitequery.Binding { return sqlitequery.Binding(r) })(m.q.LiveBindings(ctx))
}

func (m *mysqlQueries) LiveModelHolder(ctx context.Context, arg sqlitequery.LiveModelHolderParams) (string, error) {
	return m.q.LiveModelHolder(ctx, mysqlquery.LiveModelHolderParams(arg))
}

func (m *mysqlQueries) MarkDelivered(ctx context.Context, arg sqlitequery.MarkDeliveredParams) (int64, error) {
	return m.q.MarkDelivered(ctx, mysqlquery.MarkDeliveredParams(arg))
}

func (m *mysqlQueries) MarkGone(ctx context.Context, arg sqlitequery.MarkGoneParams) (int64, error) {
	return m.q.MarkGone(ctx, mysqlquery.MarkGoneParams(arg))
}

func (m *mysqlQueries) MarkReady(ctx context.Context, arg sqlitequery.MarkReadyParams) (int64, error) {
	return m.q.MarkReady(ctx, mysqlquery.MarkReadyParams(arg))
}

func (m *mysqlQueries) OpenHeads(ctx context.Context, arg sqlitequery.OpenHeadsParams) ([]sqlitequery.OpenHeadsRow, error) {
	return each(func(r mysqlquery.OpenHeadsRow) sqlitequery.OpenHeadsRow { return sqlitequery.OpenHeadsRow(r) })(m.q.OpenHeads(ctx, mysqlquery.OpenHeadsParams(arg)))
}

func (m *mysqlQueries) OwnedNames(ctx context.Context) ([]sqlitequery.OwnedNamesRow, error) {
	return each(func(r mysqlquery.OwnedNamesRow) sqlitequery.OwnedNamesRow { return sqlitequery.OwnedNamesRow(r) })(m.q.OwnedNames(ctx))
}

func (m *mysqlQueries) CountInferences(ctx context.Context) (int64, error) {
	return m.q.CountInferences(ctx)
}

func (m *mysqlQueries) InferenceHolders(ctx context.Context) ([]sqlitequery.InferenceHoldersRow, error) {
	return each(func(r mysqlquery.InferenceHoldersRow) sqlitequery.InferenceHoldersRow {
		return sqlitequery.InferenceHoldersRow(r)
	})(m.q.InferenceHolders(ctx))
}

func (m *mysqlQueries) PruneTenantFrom(ctx context.Context, arg sqlitequery.PruneTenantFromParams) (int64, error) {
	return m.q.PruneTenantFrom(ctx, mysqlquery.PruneTenantFromParams(arg))
}

func (m *mysqlQueries) PruneByAge(ctx context.Context, receivedAt int64) (int64, error) {
	return m.q.PruneByAge(ctx, receivedAt)
}

func (m *mysqlQueries) PutChunks(ctx context.Context, arg sqlitequery.PutChunksParams) error {
	return m.q.PutChunks(ctx, mysqlquery.PutChunksParams(arg))
}

func (m *mysqlQueries) PutGrant(ctx context.Context, arg sqlitequery.PutGrantParams) error {
	return m.q.PutGrant(ctx, mysqlquery.PutGrantParams(arg))
}

func (m *mysqlQueries) PutInference(ctx context.Context, arg sqlitequery.PutInferenceParams) error {
	return m.q.PutInference(ctx, mysqlquery.PutInferenceParams(arg))
}

func (m *mysqlQueries) PutMetaOnce(ctx context.Context, arg sqlitequery.PutMetaOnceParams) error {
	return m.q.PutMetaOnce(ctx, mysqlquery.PutMetaOnceParams(arg))
}

func (m *mysqlQueries) RevokeKey(ctx context.Context, arg sqlitequery.RevokeKeyParams) (int64, error) {
	return m.q.RevokeKey(ctx, mysqlquery.RevokeKeyParams(arg))
}

func (m *mysqlQueries) SetFirstNode(ctx context.Context, arg sqlitequery.SetFirstNodeParams) (int64, error) {
	return m.q.SetFirstNode(ctx, mysqlquery.SetFirstNodeParams(arg))
}

func (m *mysqlQueries) SnapshotIntents(ctx context.Context) ([]sqlitequery.SnapshotIntentsRow, error) {
	return each(func(r mysqlquery.SnapshotIntentsRow) sqlitequery.SnapshotIntentsRow {
		return sqlitequery.SnapshotIntentsRow(r)
	})(m.q.SnapshotIntents(ctx))
}

func (m *mysqlQueries) SnapshotReservations(ctx context.Context) ([]sqlitequery.SnapshotReservationsRow, error) {
	return each(func(r mysqlquery.SnapshotReservationsRow) sqlitequery.SnapshotReservationsRow {
		return sqlitequery.SnapshotReservationsRow(r)
	})(m.q.SnapshotReservations(ctx))
}

func (m *mysqlQueries) SupersedeApplies(ctx context.Context, arg sqlitequery.SupersedeAppliesParams) (int64, error) {
	return m.q.SupersedeApplies(ctx, mysqlquery.SupersedeAppliesParams(arg))
}

func (m *mysqlQueries) SetWarm(ctx context.Context, arg sqlitequery.SetWarmParams) (int64, error) {
	return m.q.SetWarm(ctx, mysqlquery.SetWarmParams(arg))
}

func (m *mysqlQueries) KeepWarmDay(ctx context.Context, arg sqlitequery.KeepWarmDayParams) error {
	return m.q.KeepWarmDay(ctx, mysqlquery.KeepWarmDayParams(arg))
}

func (m *mysqlQueries) TakePoolSlots(ctx context.Context, arg sqlitequery.TakePoolSlotsParams) (int64, error) {
	return m.q.TakePoolSlots(ctx, mysqlquery.TakePoolSlotsParams(arg))
}

func (m *mysqlQueries) TakeTenantSlots(ctx context.Context, arg sqlitequery.TakeTenantSlotsParams) (int64, error) {
	return m.q.TakeTenantSlots(ctx, mysqlquery.TakeTenantSlotsParams(arg))
}

func (m *mysqlQueries) TouchKey(ctx context.Context, arg sqlitequery.TouchKeyParams) (int64, error) {
	return m.q.TouchKey(ctx, mysqlquery.TouchKeyParams(arg))
}

func (m *mysqlQueries) WholeQueue(ctx context.Context) ([]sqlitequery.WholeQueueRow, error) {
	return each(func(r mysqlquery.WholeQueueRow) sqlitequery.WholeQueueRow { return sqlitequery.WholeQueueRow(r) })(m.q.WholeQueue(ctx))
}

func (m *mysqlQueries) CountsWaiting(ctx context.Context) ([]sqlitequery.CountsWaitingRow, error) {
	return each(func(r mysqlquery.CountsWaitingRow) sqlitequery.CountsWaitingRow {
		return sqlitequery.CountsWaitingRow(r)
	})(m.q.CountsWaiting(ctx))
}
