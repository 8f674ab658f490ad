package delivery

import (
	"context"
	"fmt"
)

// Stamper makes the ledger's highest journal number durable outside of its
// database and returns it. It is called before the target is told anything:
// what was delivered never has a higher number than what is stamped, so that
// an older backup of the database is recognised when it comes back.
type Stamper func(ctx context.Context) (journalSeq int64, err error)

// stamp is the number to write on objects; 0 where nobody stamps.
func (s Stamper) stamp(ctx context.Context) (int64, error) {
	if s == nil {
		return 0, nil
	}
	seq, err := s(ctx)
	if err != nil {
		return 0, fmt.Errorf("stamp the ledger's journal number: %w", err)
	}
	return seq, nil
}

// Adopt makes the relay deliver for another incarnation of the ledger. Rounds
// are halted meanwhile.
func (r *Relay) Adopt(incarnation string) { r.cfg.Ledger = incarnation }

// Adopt makes the settler settle for another incarnation of the ledger. Rounds
// are halted meanwhile.
func (s *Settler) Adopt(incarnation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Instance, s.told, s.seen = incarnation, map[string]bool{}, nil
}

// Adopt makes the reconciler compare with another incarnation of the ledger.
// Rounds are halted meanwhile.
func (r *Reconciler) Adopt(incarnation string) { r.cfg.Instance = incarnation }
