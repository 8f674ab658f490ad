package sqlledger

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/modelspec"
)

// Times are stored as microseconds since 1970; NULL is the zero time.

func micros(t time.Time) int64 { return t.UnixMicro() }

func moment(us int64) time.Time { return time.UnixMicro(us).UTC() }

func nullMicros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func nullMoment(v sql.NullInt64) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return moment(v.Int64)
}

func text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func reservation(row sqlitequery.Reservation) (budget.Reservation, error) {
	r := budget.Reservation{
		Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Revision: row.Revision, Generation: row.Generation,
		Cost: row.Cost, Priority: int(row.Priority), SpecHash: row.SpecHash, State: budget.State(row.State),
		Pool: row.Pool, Node: row.Node, Held: row.Held, Funded: int(row.Funded), Submits: row.Submits,
		CreatedAt: moment(row.CreatedAt), ReservedAt: nullMoment(row.ReservedAt),
		ReleaseRequestedAt: nullMoment(row.ReleaseRequestedAt), ReleasedAt: nullMoment(row.ReleasedAt), ExpiresAt: moment(row.ExpiresAt),
	}
	model, err := decodeModel(row.Spec)
	if err != nil {
		return budget.Reservation{}, fmt.Errorf("read the model of request %s/%s: %w", row.Tenant, row.ID, err)
	}
	r.Model = model
	return r, nil
}

func reservations(rows []sqlitequery.Reservation) ([]budget.Reservation, error) {
	out := make([]budget.Reservation, 0, len(rows))
	for _, row := range rows {
		r, err := reservation(row)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func decodeModel(spec []byte) (modelspec.Model, error) {
	var m modelspec.Model
	err := json.Unmarshal(spec, &m)
	return m, err
}

func intent(row sqlitequery.Outbox) (budget.Intent, error) {
	model, err := decodeModel(row.Payload)
	if err != nil {
		return budget.Intent{}, fmt.Errorf("read the payload of outbox row %d: %w", row.Seq, err)
	}
	return budget.Intent{
		Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Op: budget.IntentOp(row.Op), Generation: row.Generation,
		Model: model, Funded: int(row.Funded), Attempts: row.Attempts, NextAttemptAt: moment(row.NextAttemptAt),
		LeaseOwner: row.LeaseOwner.String, LeaseUntil: nullMoment(row.LeaseUntil),
		DeliveredAt: nullMoment(row.DeliveredAt), LastError: row.LastError.String,
	}, nil
}

func intents(rows []sqlitequery.Outbox) ([]budget.Intent, error) {
	out := make([]budget.Intent, 0, len(rows))
	for _, row := range rows {
		in, err := intent(row)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

func entry(row sqlitequery.Journal) budget.Entry {
	return budget.Entry{
		Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Pool: row.Pool, Op: budget.Op(row.Op),
		Revision: row.Revision, Slots: row.Slots, At: moment(row.At),
	}
}

func binding(row sqlitequery.Binding) budget.Binding {
	return budget.Binding{
		Ref:     budget.Ref{Tenant: row.Tenant, ID: row.ID},
		Object:  budget.Object{Namespace: row.Namespace, Name: row.Name, UID: row.Uid},
		BoundAt: moment(row.BoundAt), EverReady: row.EverReady == 1,
		FirstReadyAt: nullMoment(row.FirstReadyAt), GoneAt: nullMoment(row.GoneAt),
	}
}

func tenant(row sqlitequery.TenantQuotum) (budget.Tenant, error) {
	t := budget.Tenant{Name: row.Tenant, Cap: row.Cap, Used: row.Used}
	if err := json.Unmarshal([]byte(row.Engines), &t.Engines); err != nil {
		return t, fmt.Errorf("read the engines that tenant %s may use: %w", row.Tenant, err)
	}
	if err := json.Unmarshal([]byte(row.Pools), &t.Pools); err != nil {
		return t, fmt.Errorf("read the pools that tenant %s may use: %w", row.Tenant, err)
	}
	if err := json.Unmarshal([]byte(row.Limits), &t.Limits); err != nil {
		return t, fmt.Errorf("read the limits of tenant %s: %w", row.Tenant, err)
	}
	return t, nil
}

func tenants(rows []sqlitequery.TenantQuotum) ([]budget.Tenant, error) {
	out := make([]budget.Tenant, 0, len(rows))
	for _, row := range rows {
		t, err := tenant(row)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func pool(row sqlitequery.GpuPool) (budget.Pool, error) {
	p := budget.Pool{Name: row.Pool, Cap: row.Cap, Used: row.Used}
	if row.WarmDay != nothing {
		p.WarmDay = row.WarmDay
	}
	if row.Warm == nothing {
		return p, nil
	}
	p.Warm = &modelspec.WarmPool{}
	if err := json.Unmarshal([]byte(row.Warm), p.Warm); err != nil {
		return p, fmt.Errorf("read what pool %s keeps ready: %w", row.Pool, err)
	}
	return p, nil
}

// nothing is what stands where nothing is kept.
const nothing = "{}"

func warmText(pool string, warm *modelspec.WarmPool) (string, error) {
	if warm == nil {
		return nothing, nil
	}
	text, err := json.Marshal(warm)
	if err != nil {
		return "", fmt.Errorf("encode what pool %s keeps ready: %w", pool, err)
	}
	return string(text), nil
}

func pools(rows []sqlitequery.GpuPool) ([]budget.Pool, error) {
	out := make([]budget.Pool, 0, len(rows))
	for _, row := range rows {
		p, err := pool(row)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
