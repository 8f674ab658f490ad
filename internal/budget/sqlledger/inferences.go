package sqlledger

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/fair"
	"modeldock.io/internal/traffic"
)

// PutInferences writes a batch of account 3's records in one transaction and
// keeps the first and the latest chunk of every reservation among them.
func (l *Ledger) PutInferences(ctx context.Context, batch []traffic.Inference) error {
	if len(batch) == 0 {
		return nil
	}
	return l.record(ctx, "put inference records", func(ctx context.Context, t *transaction) error {
		for _, i := range batch {
			if err := t.q.PutInference(ctx, inferenceRow(i)); err != nil {
				return fmt.Errorf("record %s: %w", i.RequestID, err)
			}
			if err := keepChunk(ctx, t, i); err != nil {
				return fmt.Errorf("keep the chunk of record %s: %w", i.RequestID, err)
			}
		}
		return nil
	})
}

// record is a change of evidence alone.
func (l *Ledger) record(ctx context.Context, what string, run func(ctx context.Context, t *transaction) error) error {
	_, err := changeBy(ctx, l.evidence, what, func(ctx context.Context, t *transaction) (struct{}, error) {
		return struct{}{}, run(ctx, t)
	})
	return err
}

// Inference returns one record.
func (l *Ledger) Inference(ctx context.Context, requestID string) (traffic.Inference, error) {
	return single(ctx, l, "read the inference record", func(q queries) (traffic.Inference, error) {
		row, err := q.GetInference(ctx, requestID)
		if err != nil {
			return traffic.Inference{}, found(err)
		}
		return inference(row), nil
	})
}

// Inferences returns the latest records of one reservation, newest first.
func (l *Ledger) Inferences(ctx context.Context, ref budget.Ref, limit int) ([]traffic.Inference, error) {
	return single(ctx, l, "list the inference records", func(q queries) ([]traffic.Inference, error) {
		rows, err := q.InferencesOf(ctx, sqlitequery.InferencesOfParams{Owner: ref.Tenant, ReservationID: ref.ID, Limit: rowLimit(limit)})
		out := make([]traffic.Inference, 0, len(rows))
		for _, row := range rows {
			out = append(out, inference(row))
		}
		return out, err
	})
}

// Prune drops old records; zero bounds mean none. Of too many, those who have
// the most lose their oldest. Chunks stay.
func (l *Ledger) Prune(ctx context.Context, maxAge time.Duration, maxRows int64) error {
	if maxAge > 0 {
		err := l.record(ctx, "prune inference records by age", func(ctx context.Context, t *transaction) error {
			_, err := t.q.PruneByAge(ctx, micros(t.now.Add(-maxAge)))
			return err
		})
		if err != nil {
			return err
		}
	}
	if maxRows <= 0 {
		return nil
	}
	// What is too much is looked for beside the writer: that may be a long way.
	surplus, err := view(ctx, l, "find the inference records that are too many", func(q queries) ([]sqlitequery.PruneTenantFromParams, error) {
		return surplusOf(ctx, q, maxRows)
	})
	if err != nil || len(surplus) == 0 {
		return err
	}
	return l.record(ctx, "prune inference records by count", func(ctx context.Context, t *transaction) error {
		for _, of := range surplus {
			if _, err := t.q.PruneTenantFrom(ctx, of); err != nil {
				return fmt.Errorf("of %s: %w", of.Tenant, err)
			}
		}
		return nil
	})
}

// surplusOf names, for each tenant that has more than its share, the newest
// record that is too many.
func surplusOf(ctx context.Context, q queries, most int64) ([]sqlitequery.PruneTenantFromParams, error) {
	if all, err := q.CountInferences(ctx); err != nil || all <= most {
		return nil, err
	}
	holders, err := q.InferenceHolders(ctx)
	if err != nil {
		return nil, err
	}
	held := make([]int64, 0, len(holders))
	for _, h := range holders {
		held = append(held, h.Records)
	}
	share := fair.EvenShare(held, most)
	var surplus []sqlitequery.PruneTenantFromParams
	for _, h := range holders {
		if h.Records <= share {
			continue
		}
		from, err := q.InferencesFrom(ctx, sqlitequery.InferencesFromParams{Tenant: h.Tenant, Limit: 1, Offset: share})
		if err != nil {
			return nil, err
		}
		for _, f := range from {
			surplus = append(surplus, sqlitequery.PruneTenantFromParams{Tenant: h.Tenant, ReceivedAt: f.ReceivedAt, RequestID: f.RequestID})
		}
	}
	return surplus, nil
}

func inferenceRow(i traffic.Inference) sqlitequery.PutInferenceParams {
	return sqlitequery.PutInferenceParams{
		RequestID: i.RequestID, ClientRequestID: i.ClientRequestID, Tenant: i.Tenant, KeyID: i.KeyID,
		Owner: i.Owner, Model: i.Model, Version: i.Version, ReservationID: i.ReservationID,
		EndpointUid: i.EndpointUID, ObjectUid: i.ObjectUID, Path: i.Path, Stream: flag(i.Stream),
		Status: int64(i.Status), Outcome: string(i.Outcome), Error: i.Error,
		ReceivedAt: micros(i.ReceivedAt), QueuedUs: i.QueuedFor.Microseconds(),
		SentAt: nullMicros(i.SentAt), FirstByteAt: nullMicros(i.FirstByteAt), FirstContentAt: nullMicros(i.FirstContentAt),
		LastByteAt: nullMicros(i.LastByteAt), DoneAt: nullMicros(i.DoneAt),
		PromptTokens: i.PromptTokens, CompletionTokens: i.CompletionTokens,
	}
}

func inference(row sqlitequery.Inference) traffic.Inference {
	return traffic.Inference{
		RequestID: row.RequestID, ClientRequestID: row.ClientRequestID, Tenant: row.Tenant, KeyID: row.KeyID,
		Owner: row.Owner, Model: row.Model, Version: row.Version, ReservationID: row.ReservationID,
		EndpointUID: row.EndpointUid, ObjectUID: row.ObjectUid, Path: row.Path, Stream: row.Stream == 1,
		Status: int(row.Status), Outcome: traffic.Outcome(row.Outcome), Error: row.Error,
		ReceivedAt: moment(row.ReceivedAt), QueuedFor: time.Duration(row.QueuedUs) * time.Microsecond,
		SentAt: nullMoment(row.SentAt), FirstByteAt: nullMoment(row.FirstByteAt), FirstContentAt: nullMoment(row.FirstContentAt),
		LastByteAt: nullMoment(row.LastByteAt), DoneAt: nullMoment(row.DoneAt),
		PromptTokens: row.PromptTokens, CompletionTokens: row.CompletionTokens,
	}
}
