package sqlledger

import (
	"context"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/traffic"
)

// Chunks returns the first and the latest chunk that was delivered.
func (l *Ledger) Chunks(ctx context.Context, ref budget.Ref) (first, latest *traffic.Chunk, err error) {
	both, err := single(ctx, l, "read the chunks", func(q queries) (chunks, error) {
		row, err := q.GetChunks(ctx, sqlitequery.GetChunksParams{Tenant: ref.Tenant, ID: ref.ID})
		if absent(err) {
			return chunks{}, nil
		}
		return chunksOf(row), err
	})
	return both.first, both.latest, err
}

// chunks are the two kept proofs of one reservation.
type chunks struct{ first, latest *traffic.Chunk }

// keepChunk folds a record into its reservation's first and latest chunk.
func keepChunk(ctx context.Context, t *transaction, i traffic.Inference) error {
	if i.FirstContentAt.IsZero() || i.ReservationID == "" {
		return nil
	}
	ref := budget.Ref{Tenant: i.Owner, ID: i.ReservationID}
	row, err := t.q.GetChunks(ctx, sqlitequery.GetChunksParams{Tenant: ref.Tenant, ID: ref.ID})
	if err != nil && !absent(err) {
		return err
	}
	kept := chunks{}
	if err == nil {
		kept = chunksOf(row)
	}
	if !kept.fold(traffic.Chunk{
		InferenceID: i.RequestID, EndpointUID: i.EndpointUID, Tenant: i.Tenant,
		SentAt: i.SentAt, FirstByteAt: i.FirstByteAt, At: i.FirstContentAt, DoneAt: i.DoneAt,
	}) {
		return nil
	}
	t.changed("request", ref, 0)
	return t.q.PutChunks(ctx, chunksRow(ref, kept))
}

// fold keeps c where it is earlier than the first, later than the latest, or
// tells more of a record that is kept. It reports whether anything changed.
func (k *chunks) fold(c traffic.Chunk) bool {
	changed := false
	if k.first == nil || earlier(c, *k.first) || furtherThan(c, *k.first) {
		k.first, changed = &c, true
	}
	if k.latest == nil || earlier(*k.latest, c) || furtherThan(c, *k.latest) {
		k.latest, changed = &c, true
	}
	return changed
}

// earlier orders by time, and by id where times are equal, so that the result
// does not depend on the order of arrival.
func earlier(a, b traffic.Chunk) bool {
	if !a.At.Equal(b.At) {
		return a.At.Before(b.At)
	}
	return a.InferenceID < b.InferenceID
}

func furtherThan(c, kept traffic.Chunk) bool {
	return c.InferenceID == kept.InferenceID && kept.DoneAt.IsZero() && !c.DoneAt.IsZero()
}

func chunksOf(row sqlitequery.FirstChunk) chunks {
	return chunks{
		first: &traffic.Chunk{
			InferenceID: row.FirstRequestID, EndpointUID: row.FirstEndpointUid, Tenant: row.FirstCaller,
			SentAt: nullMoment(row.FirstSentAt), FirstByteAt: nullMoment(row.FirstByteAt), At: moment(row.FirstAt), DoneAt: nullMoment(row.FirstDoneAt),
		},
		latest: &traffic.Chunk{
			InferenceID: row.LatestRequestID, EndpointUID: row.LatestEndpointUid, Tenant: row.LatestCaller,
			SentAt: nullMoment(row.LatestSentAt), FirstByteAt: nullMoment(row.LatestByteAt), At: moment(row.LatestAt), DoneAt: nullMoment(row.LatestDoneAt),
		},
	}
}

func chunksRow(ref budget.Ref, k chunks) sqlitequery.PutChunksParams {
	return sqlitequery.PutChunksParams{
		Tenant: ref.Tenant, ID: ref.ID,
		FirstRequestID: k.first.InferenceID, FirstEndpointUid: k.first.EndpointUID, FirstCaller: k.first.Tenant,
		FirstSentAt: nullMicros(k.first.SentAt), FirstByteAt: nullMicros(k.first.FirstByteAt), FirstAt: micros(k.first.At), FirstDoneAt: nullMicros(k.first.DoneAt),
		LatestRequestID: k.latest.InferenceID, LatestEndpointUid: k.latest.EndpointUID, LatestCaller: k.latest.Tenant,
		LatestSentAt: nullMicros(k.latest.SentAt), LatestByteAt: nullMicros(k.latest.FirstByteAt), LatestAt: micros(k.latest.At), LatestDoneAt: nullMicros(k.latest.DoneAt),
	}
}
