package jsonledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/fair"
	"modeldock.io/internal/traffic"
)

// PutInferences writes a batch of records and keeps first and latest chunks.
func (l *Ledger) PutInferences(ctx context.Context, batch []traffic.Inference) error {
	return l.update(ctx, func(s *state) error {
		for _, i := range batch {
			s.put(i)
			if !i.FirstContentAt.IsZero() && i.ReservationID != "" {
				s.keep(budget.Ref{Tenant: i.Owner, ID: i.ReservationID}, traffic.Chunk{
					InferenceID: i.RequestID, EndpointUID: i.EndpointUID, Tenant: i.Tenant,
					SentAt: i.SentAt, FirstByteAt: i.FirstByteAt, At: i.FirstContentAt, DoneAt: i.DoneAt,
				})
			}
		}
		return nil
	})
}

// put stores a record; one that came before is replaced unless it got further.
func (s *state) put(i traffic.Inference) {
	for n := range s.Inferences {
		if s.Inferences[n].RequestID == i.RequestID {
			if !i.LastByteAt.Before(s.Inferences[n].LastByteAt) {
				s.Inferences[n] = i
			}
			return
		}
	}
	s.Inferences = append(s.Inferences, i)
}

func (s *state) keep(ref budget.Ref, c traffic.Chunk) {
	for n := range s.Chunks {
		k := &s.Chunks[n]
		if k.Ref != ref {
			continue
		}
		if compare(c, k.First) < 0 || finishes(c, k.First) {
			k.First = c
		}
		if compare(c, k.Latest) > 0 || finishes(c, k.Latest) {
			k.Latest = c
		}
		return
	}
	s.Chunks = append(s.Chunks, evidence.Kept{Ref: ref, First: c, Latest: c})
}

// compare orders chunks by time, then by id.
func compare(a, b traffic.Chunk) int {
	if c := a.At.Compare(b.At); c != 0 {
		return c
	}
	return strings.Compare(a.InferenceID, b.InferenceID)
}

// finishes: c is the same answer as k, now complete.
func finishes(c, k traffic.Chunk) bool {
	return c.InferenceID == k.InferenceID && k.DoneAt.IsZero() && !c.DoneAt.IsZero()
}

// Inference returns one record.
func (l *Ledger) Inference(ctx context.Context, requestID string) (out traffic.Inference, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, i := range s.Inferences {
			if i.RequestID == requestID {
				out = i
				return nil
			}
		}
		return budget.ErrNotFound
	})
	return out, err
}

// Inferences returns the latest records of one reservation, newest first.
func (l *Ledger) Inferences(ctx context.Context, ref budget.Ref, limit int) (out []traffic.Inference, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, i := range s.Inferences {
			if i.Owner == ref.Tenant && i.ReservationID == ref.ID {
				out = append(out, i)
			}
		}
		slices.SortFunc(out, newestFirst)
		if limit > 0 && len(out) > limit {
			out = out[:limit]
		}
		return nil
	})
	return out, err
}

func newestFirst(a, b traffic.Inference) int {
	if c := b.ReceivedAt.Compare(a.ReceivedAt); c != 0 {
		return c
	}
	return strings.Compare(b.RequestID, a.RequestID)
}

// Chunks returns the first and the latest chunk that was delivered.
func (l *Ledger) Chunks(ctx context.Context, ref budget.Ref) (first, latest *traffic.Chunk, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, k := range s.Chunks {
			if k.Ref == ref {
				first, latest = &k.First, &k.Latest
			}
		}
		return nil
	})
	return first, latest, err
}

// Prune drops old records; zero bounds mean none. Of too many, those who have
// the most lose their oldest. Chunks stay.
func (l *Ledger) Prune(ctx context.Context, maxAge time.Duration, maxRows int64) error {
	return l.update(ctx, func(s *state) error {
		if oldest := l.now().Add(-maxAge); maxAge > 0 {
			s.Inferences = slices.DeleteFunc(s.Inferences, func(i traffic.Inference) bool { return i.ReceivedAt.Before(oldest) })
		}
		if maxRows > 0 && int64(len(s.Inferences)) > maxRows {
			slices.SortFunc(s.Inferences, newestFirst)
			held := map[string]int64{}
			for _, i := range s.Inferences {
				held[i.Tenant]++
			}
			share, kept := fair.EvenShare(slices.Collect(maps.Values(held)), maxRows), map[string]int64{}
			s.Inferences = slices.DeleteFunc(s.Inferences, func(i traffic.Inference) bool {
				kept[i.Tenant]++
				return kept[i.Tenant] > share
			})
		}
		return nil
	})
}
