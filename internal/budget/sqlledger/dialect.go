package sqlledger

import (
	"context"
	"database/sql"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// queries is what the rules ask of a database, in the nouns of SQLite's
// generated code; MySQL's says the same in types of its own (see
// mysqlQueries). A statement that a dialect cannot say in one is kept from
// the rules: its queries read back what they changed.
type queries interface {
	statements
	// ReserveSet turns waiting rows into reserved ones and writes the journal
	// and the apply intent of each (INV5). The answer has the order of picked.
	ReserveSet(ctx context.Context, now time.Time, picked []budget.Request) ([]sqlitequery.Reservation, error)
	copyStatements
	// NumberJournalAbove makes the journal's next number larger than seq, where
	// the database can do that in a transaction; see dialect.numberJournalAbove.
	NumberJournalAbove(ctx context.Context, seq int64) error
}

// dialect is everything else that the databases differ in.
type dialect interface {
	queries(db sqlitequery.DBTX) queries
	// session makes a connection ready for its work.
	session(ctx context.Context, conn *sql.Conn, before func(string) error) (*session, error)
	// beginSnapshot opens a transaction that sees one state of the ledger.
	beginSnapshot(ctx context.Context, s *session) error
	// version numbers the state that the session's snapshot sees, for this one
	// connection; not known where the database does not tell it.
	version(ctx context.Context, s *session) (n int64, known bool, err error)
	// numberJournalAbove is NumberJournalAbove for a database that can only do
	// it outside of transactions. It may lower: the caller knows the number.
	numberJournalAbove(ctx context.Context, db *sql.DB, seq int64) error
	// isConstraint reports whether a row was refused; the database has then
	// undone the one statement and the transaction goes on.
	isConstraint(err error) bool
	// isTransient reports that a transaction was undone through no fault of
	// its own, and that the same one may well succeed now.
	isTransient(err error) bool
	// isLost reports that the connection broke and must be replaced.
	isLost(err error) bool
}

// protocol is how one writer opens its transactions and learns their end.
type protocol interface {
	// begin opens a transaction; the clock is the ledger's for all of it.
	begin(ctx context.Context, s *session) (clock func() time.Time, err error)
	// announce counts the transaction under way among those that other
	// processes want to hear of.
	announce(ctx context.Context, s *session) error
	// settle finds out what became of a COMMIT that answered failure: nil if
	// the transaction took effect after all.
	settle(ctx context.Context, s *session, failure error) error
	// end forgets what the writer kept in the database.
	end(ctx context.Context)
}

// statements are the queries that both dialects have by the same name.
type statements interface {
	AllBindings(ctx context.Context) ([]sqlitequery.Binding, error)
	AllJournal(ctx context.Context) ([]sqlitequery.Journal, error)
	AmendReservation(ctx context.Context, arg sqlitequery.AmendReservationParams) (sqlitequery.Reservation, error)
	AppendAudit(ctx context.Context, arg sqlitequery.AppendAuditParams) error
	AuditBefore(ctx context.Context, arg sqlitequery.AuditBeforeParams) ([]sqlitequery.Audit, error)
	AppendJournal(ctx context.Context, arg sqlitequery.AppendJournalParams) error
	AskRelease(ctx context.Context, arg sqlitequery.AskReleaseParams) (sqlitequery.Reservation, error)
	BindingsByObject(ctx context.Context, arg sqlitequery.BindingsByObjectParams) ([]sqlitequery.Binding, error)
	CancelReservation(ctx context.Context, arg sqlitequery.CancelReservationParams) (sqlitequery.Reservation, error)
	CountDeclined(ctx context.Context, owner string) (int64, error)
	CountGrants(ctx context.Context, owner string) (int64, error)
	CountRequests(ctx context.Context, tenant string) (int64, error)
	CountSubmit(ctx context.Context, arg sqlitequery.CountSubmitParams) (int64, error)
	CountWaiting(ctx context.Context, tenant string) (int64, error)
	CreateKey(ctx context.Context, arg sqlitequery.CreateKeyParams) error
	CreateSession(ctx context.Context, arg sqlitequery.CreateSessionParams) error
	CreditShrunk(ctx context.Context, arg sqlitequery.CreditShrunkParams) (sqlitequery.Reservation, error)
	DeferIntent(ctx context.Context, arg sqlitequery.DeferIntentParams) (int64, error)
	DeclineEndedGrant(ctx context.Context, arg sqlitequery.DeclineEndedGrantParams) (int64, error)
	DeclinedAt(ctx context.Context, arg sqlitequery.DeclinedAtParams) (int64, error)
	DeleteGrant(ctx context.Context, arg sqlitequery.DeleteGrantParams) (int64, error)
	DeleteSession(ctx context.Context, idHash []byte) (int64, error)
	DropMeta(ctx context.Context, name string) error
	DropOtherAudit(ctx context.Context, seq int64) (int64, error)
	DropTenantAudit(ctx context.Context, arg sqlitequery.DropTenantAuditParams) (int64, error)
	OneTenantAuditFrom(ctx context.Context, arg sqlitequery.OneTenantAuditFromParams) ([]int64, error)
	TenantAuditHolders(ctx context.Context) ([]sqlitequery.TenantAuditHoldersRow, error)
	OtherAuditFrom(ctx context.Context, arg sqlitequery.OtherAuditFromParams) ([]int64, error)
	TenantAuditFrom(ctx context.Context, arg sqlitequery.TenantAuditFromParams) ([]int64, error)
	DropExpiredSessions(ctx context.Context, expiresAt int64) (int64, error)
	DropSessionsUntil(ctx context.Context, arg sqlitequery.DropSessionsUntilParams) (int64, error)
	DueIntents(ctx context.Context, arg sqlitequery.DueIntentsParams) ([]sqlitequery.Outbox, error)
	EnsureTenant(ctx context.Context, tenant string) (int64, error)
	ExpireReservations(ctx context.Context, now int64) ([]sqlitequery.Reservation, error)
	GetBinding(ctx context.Context, arg sqlitequery.GetBindingParams) (sqlitequery.Binding, error)
	GetChunks(ctx context.Context, arg sqlitequery.GetChunksParams) (sqlitequery.FirstChunk, error)
	GetInference(ctx context.Context, requestID string) (sqlitequery.Inference, error)
	GetIntent(ctx context.Context, arg sqlitequery.GetIntentParams) (sqlitequery.Outbox, error)
	GetKey(ctx context.Context, keyID string) (sqlitequery.ApiKey, error)
	GetMeta(ctx context.Context, name string) (string, error)
	GetPool(ctx context.Context, pool string) (sqlitequery.GpuPool, error)
	GetReservation(ctx context.Context, arg sqlitequery.GetReservationParams) (sqlitequery.Reservation, error)
	GetSession(ctx context.Context, arg sqlitequery.GetSessionParams) (sqlitequery.Session, error)
	GetTenant(ctx context.Context, tenant string) (sqlitequery.TenantQuotum, error)
	GivePoolSlots(ctx context.Context, arg sqlitequery.GivePoolSlotsParams) (int64, error)
	GiveTenantSlots(ctx context.Context, arg sqlitequery.GiveTenantSlotsParams) (int64, error)
	InferencesOf(ctx context.Context, arg sqlitequery.InferencesOfParams) ([]sqlitequery.Inference, error)
	InsertBinding(ctx context.Context, arg sqlitequery.InsertBindingParams) error
	InsertReservation(ctx context.Context, arg sqlitequery.InsertReservationParams) (int64, error)
	IntendApply(ctx context.Context, arg sqlitequery.IntendApplyParams) (int64, error)
	IntendDelete(ctx context.Context, arg sqlitequery.IntendDeleteParams) (int64, error)
	IntentsOf(ctx context.Context, arg sqlitequery.IntentsOfParams) ([]sqlitequery.Outbox, error)
	JournalOf(ctx context.Context, arg sqlitequery.JournalOfParams) ([]sqlitequery.Journal, error)
	LatestJournal(ctx context.Context, limit int64) ([]sqlitequery.Journal, error)
	LatestAudit(ctx context.Context, limit int64) ([]sqlitequery.Audit, error)
	LeaseIntent(ctx context.Context, arg sqlitequery.LeaseIntentParams) (sqlitequery.Outbox, error)
	GrantedAt(ctx context.Context, arg sqlitequery.GrantedAtParams) (int64, error)
	DropEndedGrant(ctx context.Context, arg sqlitequery.DropEndedGrantParams) (int64, error)
	DropEndedGrantsUntil(ctx context.Context, arg sqlitequery.DropEndedGrantsUntilParams) (int64, error)
	EndGrant(ctx context.Context, arg sqlitequery.EndGrantParams) error
	EndedGrantBeyond(ctx context.Context, arg sqlitequery.EndedGrantBeyondParams) ([]int64, error)
	ListEndedGrants(ctx context.Context) ([]sqlitequery.EndedGrant, error)
	ListGrants(ctx context.Context) ([]sqlitequery.ModelGrant, error)
	ListKeys(ctx context.Context) ([]sqlitequery.ApiKey, error)
	ListPools(ctx context.Context) ([]sqlitequery.GpuPool, error)
	ListReleasing(ctx context.Context, arg sqlitequery.ListReleasingParams) ([]sqlitequery.Reservation, error)
	ListReservations(ctx context.Context, arg sqlitequery.ListReservationsParams) ([]sqlitequery.Reservation, error)
	ListShrinking(ctx context.Context, arg sqlitequery.ListShrinkingParams) ([]sqlitequery.Reservation, error)
	ListTenantReservations(ctx context.Context, arg sqlitequery.ListTenantReservationsParams) ([]sqlitequery.Reservation, error)
	ListTenants(ctx context.Context) ([]sqlitequery.TenantQuotum, error)
	LedgerIdentity(ctx context.Context, arg sqlitequery.LedgerIdentityParams) (sqlitequery.LedgerIdentityRow, error)
	LiveBindings(ctx context.Context) ([]sqlitequery.Binding, error)
	LiveModelHolder(ctx context.Context, arg sqlitequery.LiveModelHolderParams) (string, error)
	MarkDelivered(ctx context.Context, arg sqlitequery.MarkDeliveredParams) (int64, error)
	MarkGone(ctx context.Context, arg sqlitequery.MarkGoneParams) (int64, error)
	MarkReady(ctx context.Context, arg sqlitequery.MarkReadyParams) (int64, error)
	OpenHeads(ctx context.Context, arg sqlitequery.OpenHeadsParams) ([]sqlitequery.OpenHeadsRow, error)
	OwnedNames(ctx context.Context) ([]sqlitequery.OwnedNamesRow, error)
	PruneByAge(ctx context.Context, receivedAt int64) (int64, error)
	CountInferences(ctx context.Context) (int64, error)
	InferenceHolders(ctx context.Context) ([]sqlitequery.InferenceHoldersRow, error)
	InferencesFrom(ctx context.Context, arg sqlitequery.InferencesFromParams) ([]sqlitequery.InferencesFromRow, error)
	PruneTenantFrom(ctx context.Context, arg sqlitequery.PruneTenantFromParams) (int64, error)
	PutChunks(ctx context.Context, arg sqlitequery.PutChunksParams) error
	PutGrant(ctx context.Context, arg sqlitequery.PutGrantParams) error
	PutInference(ctx context.Context, arg sqlitequery.PutInferenceParams) error
	PutMetaOnce(ctx context.Context, arg sqlitequery.PutMetaOnceParams) error
	QueueAfter(ctx context.Context, arg sqlitequery.QueueAfterParams) ([]sqlitequery.QueueAfterRow, error)
	QueueBelow(ctx context.Context, arg sqlitequery.QueueBelowParams) ([]sqlitequery.QueueBelowRow, error)
	ReleaseReservation(ctx context.Context, arg sqlitequery.ReleaseReservationParams) (sqlitequery.Reservation, error)
	RevokeKey(ctx context.Context, arg sqlitequery.RevokeKeyParams) (int64, error)
	SessionsOf(ctx context.Context, arg sqlitequery.SessionsOfParams) ([]int64, error)
	SetEngines(ctx context.Context, arg sqlitequery.SetEnginesParams) (sqlitequery.TenantQuotum, error)
	SetFirstNode(ctx context.Context, arg sqlitequery.SetFirstNodeParams) (int64, error)
	SetLimits(ctx context.Context, arg sqlitequery.SetLimitsParams) (sqlitequery.TenantQuotum, error)
	SetPool(ctx context.Context, arg sqlitequery.SetPoolParams) (sqlitequery.GpuPool, error)
	SetWarm(ctx context.Context, arg sqlitequery.SetWarmParams) (int64, error)
	KeepWarmDay(ctx context.Context, arg sqlitequery.KeepWarmDayParams) error
	SetPools(ctx context.Context, arg sqlitequery.SetPoolsParams) (sqlitequery.TenantQuotum, error)
	SetQuota(ctx context.Context, arg sqlitequery.SetQuotaParams) (sqlitequery.TenantQuotum, error)
	SnapshotIntents(ctx context.Context) ([]sqlitequery.SnapshotIntentsRow, error)
	SnapshotReservations(ctx context.Context) ([]sqlitequery.SnapshotReservationsRow, error)
	SupersedeApplies(ctx context.Context, arg sqlitequery.SupersedeAppliesParams) (int64, error)
	TakePoolSlots(ctx context.Context, arg sqlitequery.TakePoolSlotsParams) (int64, error)
	TakeTenantSlots(ctx context.Context, arg sqlitequery.TakeTenantSlotsParams) (int64, error)
	TouchKey(ctx context.Context, arg sqlitequery.TouchKeyParams) (int64, error)
	CountsWaiting(ctx context.Context) ([]sqlitequery.CountsWaitingRow, error)
	FirstWaiting(ctx context.Context, arg sqlitequery.FirstWaitingParams) ([]sqlitequery.Reservation, error)
	WholeQueue(ctx context.Context) ([]sqlitequery.WholeQueueRow, error)
}
