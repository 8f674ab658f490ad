package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/mysqlquery"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// In this file stand the queries that take more than one statement in MySQL,
// which has no UPDATE … RETURNING and no conflict clause for one key. All of
// them run while the writer has the turn: what is read back is what was written.

// errNoParent stands for the foreign keys that MySQL's schema leaves out,
// errTaken for a unique key that was not tried.
var (
	errNoParent = errors.New("the tenant or the pool does not exist")
	errTaken    = errors.New("the id or the model is taken")
)

// limit32 is a LIMIT in the type that the generator gives it.
func limit32(n int64) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // bounded

// changedOne turns "no row was changed" into the absence that RETURNING shows.
func changedOne(rows int64, err error) error {
	if err == nil && rows == 0 {
		return sql.ErrNoRows
	}
	return err
}

func (m *mysqlQueries) InsertReservation(ctx context.Context, arg sqlitequery.InsertReservationParams) (int64, error) {
	has, err := m.q.CheckInsert(ctx, mysqlquery.CheckInsertParams{
		Tenant: arg.Tenant, Pool: arg.Pool, ID: arg.ID, ModelName: arg.ModelName, ModelVersion: arg.ModelVersion,
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for what refuses the request: %w", err)
	case !has.HasTenant || !has.HasPool:
		return 0, errNoParent
	case has.HasID || has.HasModel:
		return 0, errTaken
	}
	return m.q.InsertReservation(ctx, mysqlquery.InsertReservationParams(arg))
}

func (m *mysqlQueries) CancelReservation(ctx context.Context, arg sqlitequery.CancelReservationParams) (sqlitequery.Reservation, error) {
	return m.afterwards(ctx, arg.Tenant, arg.ID)(m.q.CancelReservation(ctx, mysqlquery.CancelReservationParams(arg)))
}

func (m *mysqlQueries) AskRelease(ctx context.Context, arg sqlitequery.AskReleaseParams) (sqlitequery.Reservation, error) {
	return m.afterwards(ctx, arg.Tenant, arg.ID)(m.q.AskRelease(ctx, mysqlquery.AskReleaseParams(arg)))
}

func (m *mysqlQueries) ReleaseReservation(ctx context.Context, arg sqlitequery.ReleaseReservationParams) (sqlitequery.Reservation, error) {
	return m.afterwards(ctx, arg.Tenant, arg.ID)(m.q.ReleaseReservation(ctx, mysqlquery.ReleaseReservationParams(arg)))
}

func (m *mysqlQueries) AmendReservation(ctx context.Context, arg sqlitequery.AmendReservationParams) (sqlitequery.Reservation, error) {
	return m.afterwards(ctx, arg.Tenant, arg.ID)(m.q.AmendReservation(ctx, mysqlquery.AmendReservationParams(arg)))
}

func (m *mysqlQueries) CreditShrunk(ctx context.Context, arg sqlitequery.CreditShrunkParams) (sqlitequery.Reservation, error) {
	return m.afterwards(ctx, arg.Tenant, arg.ID)(m.q.CreditShrunk(ctx, mysqlquery.CreditShrunkParams(arg)))
}

// afterwards reads a reservation back that was changed.
func (m *mysqlQueries) afterwards(ctx context.Context, tenant, id string) func(int64, error) (sqlitequery.Reservation, error) {
	return func(rows int64, err error) (sqlitequery.Reservation, error) {
		if err := changedOne(rows, err); err != nil {
			return sqlitequery.Reservation{}, err
		}
		return m.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: tenant, ID: id})
	}
}

func (m *mysqlQueries) bySeq(ctx context.Context, seqs []int64) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.ReservationsBySeqRow) sqlitequery.Reservation { return sqlitequery.Reservation(r) })(m.q.ReservationsBySeq(ctx, seqs))
}

func (m *mysqlQueries) ExpireReservations(ctx context.Context, now int64) ([]sqlitequery.Reservation, error) {
	seqs, err := m.q.OverdueReservations(ctx, now)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	if _, err := m.q.ExpireReservations(ctx, seqs); err != nil {
		return nil, err
	}
	return m.bySeq(ctx, seqs)
}

// ReserveSet takes one statement of each kind for the whole set: round trips
// are what an admission costs here.
func (m *mysqlQueries) ReserveSet(ctx context.Context, now time.Time, picked []budget.Request) ([]sqlitequery.Reservation, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	seqs := make([]int64, 0, len(picked))
	for _, p := range picked {
		seqs = append(seqs, p.Seq)
	}
	changed, err := m.q.ReserveReservations(ctx, mysqlquery.ReserveReservationsParams{Now: nullMicros(now), Seqs: seqs})
	if err == nil && changed != int64(len(seqs)) {
		err = fmt.Errorf("%d rows were changed where %d must be", changed, len(seqs))
	}
	if err != nil {
		return nil, fmt.Errorf("reserve a set of %d requests: %w", len(seqs), err)
	}
	rows, err := m.bySeq(ctx, seqs)
	if err != nil || len(rows) != len(seqs) {
		return nil, fmt.Errorf("read a set of %d requests back, got %d: %w", len(seqs), len(rows), err)
	}
	// In the order of admission, which is the order of delivery.
	place := make(map[int64]int, len(seqs))
	for i, seq := range seqs {
		place[seq] = i
	}
	slices.SortFunc(rows, func(a, b sqlitequery.Reservation) int { return place[a.Seq] - place[b.Seq] })
	if err := m.journalSet(ctx, rows); err != nil {
		return nil, fmt.Errorf("journal a set of %d requests: %w", len(rows), err)
	}
	if err := m.intendSet(ctx, now, rows); err != nil {
		return nil, fmt.Errorf("write the apply intents of a set of %d requests: %w", len(rows), err)
	}
	return rows, nil
}

func (m *mysqlQueries) EnsureTenant(ctx context.Context, tenant string) (int64, error) {
	created, err := m.q.InsertTenant(ctx, tenant)
	if isDuplicate(err) {
		return 0, nil
	}
	return created, err
}

func (m *mysqlQueries) SetQuota(ctx context.Context, arg sqlitequery.SetQuotaParams) (sqlitequery.TenantQuotum, error) {
	if err := m.q.SetQuota(ctx, mysqlquery.SetQuotaParams(arg)); err != nil {
		return sqlitequery.TenantQuotum{}, err
	}
	return m.GetTenant(ctx, arg.Tenant)
}

func (m *mysqlQueries) SetEngines(ctx context.Context, arg sqlitequery.SetEnginesParams) (sqlitequery.TenantQuotum, error) {
	if err := m.q.SetEngines(ctx, mysqlquery.SetEnginesParams(arg)); err != nil {
		return sqlitequery.TenantQuotum{}, err
	}
	return m.GetTenant(ctx, arg.Tenant)
}

func (m *mysqlQueries) SetPools(ctx context.Context, arg sqlitequery.SetPoolsParams) (sqlitequery.TenantQuotum, error) {
	if err := m.q.SetPools(ctx, mysqlquery.SetPoolsParams(arg)); err != nil {
		return sqlitequery.TenantQuotum{}, err
	}
	return m.GetTenant(ctx, arg.Tenant)
}

func (m *mysqlQueries) SetLimits(ctx context.Context, arg sqlitequery.SetLimitsParams) (sqlitequery.TenantQuotum, error) {
	if err := m.q.SetLimits(ctx, mysqlquery.SetLimitsParams(arg)); err != nil {
		return sqlitequery.TenantQuotum{}, err
	}
	return m.GetTenant(ctx, arg.Tenant)
}

func (m *mysqlQueries) SetPool(ctx context.Context, arg sqlitequery.SetPoolParams) (sqlitequery.GpuPool, error) {
	if err := m.q.SetPool(ctx, mysqlquery.SetPoolParams(arg)); err != nil {
		return sqlitequery.GpuPool{}, err
	}
	return m.GetPool(ctx, arg.Pool)
}

func (m *mysqlQueries) LeaseIntent(ctx context.Context, arg sqlitequery.LeaseIntentParams) (sqlitequery.Outbox, error) {
	err := changedOne(m.q.LeaseIntent(ctx, mysqlquery.LeaseIntentParams{Owner: arg.Owner, LeaseUntil: arg.Until, Seq: arg.Seq}))
	if err != nil {
		return sqlitequery.Outbox{}, err
	}
	row, err := m.q.IntentBySeq(ctx, arg.Seq)
	return sqlitequery.Outbox(row), err
}

func (m *mysqlQueries) DueIntents(ctx context.Context, arg sqlitequery.DueIntentsParams) ([]sqlitequery.Outbox, error) {
	return each(func(r mysqlquery.Outbox) sqlitequery.Outbox { return sqlitequery.Outbox(r) })(m.q.DueIntents(ctx, mysqlquery.DueIntentsParams{
		Now: arg.Now, FreeAt: sql.NullInt64{Int64: arg.Now, Valid: true}, Limit: limit32(arg.MaxRows),
	}))
}

// The following differ in nothing but the type of their LIMIT.

func (m *mysqlQueries) InferencesOf(ctx context.Context, arg sqlitequery.InferencesOfParams) ([]sqlitequery.Inference, error) {
	return each(func(r mysqlquery.Inference) sqlitequery.Inference { return sqlitequery.Inference(r) })(m.q.InferencesOf(ctx, mysqlquery.InferencesOfParams{
		Owner: arg.Owner, ReservationID: arg.ReservationID, Limit: limit32(arg.Limit),
	}))
}

func (m *mysqlQueries) AuditBefore(ctx context.Context, arg sqlitequery.AuditBeforeParams) ([]sqlitequery.Audit, error) {
	return each(func(r mysqlquery.Audit) sqlitequery.Audit { return sqlitequery.Audit(r) })(m.q.AuditBefore(ctx, mysqlquery.AuditBeforeParams{Seq: arg.Seq, Limit: limit32(arg.Limit)}))
}

func (m *mysqlQueries) InferencesFrom(ctx context.Context, arg sqlitequery.InferencesFromParams) ([]sqlitequery.InferencesFromRow, error) {
	return each(func(r mysqlquery.InferencesFromRow) sqlitequery.InferencesFromRow {
		return sqlitequery.InferencesFromRow(r)
	})(m.q.InferencesFrom(ctx, mysqlquery.InferencesFromParams{
		Tenant: arg.Tenant, Limit: limit32(arg.Limit), Offset: limit32(arg.Offset),
	}))
}

func (m *mysqlQueries) LatestAudit(ctx context.Context, limit int64) ([]sqlitequery.Audit, error) {
	return each(func(r mysqlquery.Audit) sqlitequery.Audit { return sqlitequery.Audit(r) })(m.q.LatestAudit(ctx, limit32(limit)))
}

func (m *mysqlQueries) LatestJournal(ctx context.Context, limit int64) ([]sqlitequery.Journal, error) {
	return each(func(r mysqlquery.LatestJournalRow) sqlitequery.Journal { return sqlitequery.Journal(r) })(m.q.LatestJournal(ctx, limit32(limit)))
}

func (m *mysqlQueries) ListReleasing(ctx context.Context, arg sqlitequery.ListReleasingParams) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.ListReleasingRow) sqlitequery.Reservation { return sqlitequery.Reservation(r) })(m.q.ListReleasing(ctx, mysqlquery.ListReleasingParams{
		AfterSeq: arg.AfterSeq, Tenant: arg.Tenant, Model: arg.Model, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) ListShrinking(ctx context.Context, arg sqlitequery.ListShrinkingParams) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.ListShrinkingRow) sqlitequery.Reservation { return sqlitequery.Reservation(r) })(m.q.ListShrinking(ctx, mysqlquery.ListShrinkingParams{
		AfterSeq: arg.AfterSeq, Tenant: arg.Tenant, Model: arg.Model, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) ListReservations(ctx context.Context, arg sqlitequery.ListReservationsParams) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.ListReservationsRow) sqlitequery.Reservation { return sqlitequery.Reservation(r) })(m.q.ListReservations(ctx, mysqlquery.ListReservationsParams{
		AfterSeq: arg.AfterSeq, State: arg.State, Model: arg.Model, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) ListTenantReservations(ctx context.Context, arg sqlitequery.ListTenantReservationsParams) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.ListTenantReservationsRow) sqlitequery.Reservation {
		return sqlitequery.Reservation(r)
	})(m.q.ListTenantReservations(ctx, mysqlquery.ListTenantReservationsParams{
		Tenant: arg.Tenant, AfterSeq: arg.AfterSeq, State: arg.State, Model: arg.Model, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) FirstWaiting(ctx context.Context, arg sqlitequery.FirstWaitingParams) ([]sqlitequery.Reservation, error) {
	return each(func(r mysqlquery.FirstWaitingRow) sqlitequery.Reservation { return sqlitequery.Reservation(r) })(m.q.FirstWaiting(ctx, mysqlquery.FirstWaitingParams{
		Tenant: arg.Tenant, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) QueueAfter(ctx context.Context, arg sqlitequery.QueueAfterParams) ([]sqlitequery.QueueAfterRow, error) {
	return each(func(r mysqlquery.QueueAfterRow) sqlitequery.QueueAfterRow { return sqlitequery.QueueAfterRow(r) })(m.q.QueueAfter(ctx, mysqlquery.QueueAfterParams{
		Tenant: arg.Tenant, Priority: arg.Priority, Seq: arg.Seq, Fits: arg.Fits, Old: arg.Old, Most: arg.Most, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) QueueBelow(ctx context.Context, arg sqlitequery.QueueBelowParams) ([]sqlitequery.QueueBelowRow, error) {
	return each(func(r mysqlquery.QueueBelowRow) sqlitequery.QueueBelowRow { return sqlitequery.QueueBelowRow(r) })(m.q.QueueBelow(ctx, mysqlquery.QueueBelowParams{
		Tenant: arg.Tenant, Priority: arg.Priority, Fits: arg.Fits, Old: arg.Old, Most: arg.Most, Limit: limit32(arg.MaxRows),
	}))
}

func (m *mysqlQueries) SessionsOf(ctx context.Context, arg sqlitequery.SessionsOfParams) ([]int64, error) {
	return m.q.SessionsOf(ctx, mysqlquery.SessionsOfParams{KeyID: arg.KeyID, Limit: limit32(arg.Limit)})
}
