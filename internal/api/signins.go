package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"modeldock.io/internal/budget"
)

// What one window of sign-ins may write into the audit: whoever guesses keys,
// or signs in again and again, pushes nothing else out of it. What is beyond is
// counted, and the count written when the window is over.
const (
	signInWindow     = time.Hour
	failedPerAddress = 5
	failedOfAll      = 20
	madePerKey       = 60
	// maxOrigins bounds the addresses and keys that are told apart.
	maxOrigins = 4096
)

// signIns bounds the audit's rows about sessions.
type signIns struct {
	clock func() time.Time

	mu     sync.Mutex
	since  time.Time
	stored map[string]int // by address of failed, by key of other ones
	failed int            // of all that were stored
	more   countedSignIns
}

// countedSignIns were not stored.
type countedSignIns struct {
	failed, made int64
	by           map[string]int64 // failed ones by address
}

func newSignIns(clock func() time.Time) *signIns {
	return &signIns{clock: clock, stored: map[string]int{}, more: countedSignIns{by: map[string]int64{}}}
}

// fail reports whether a failed sign-in from an address is one to store.
func (s *signIns) fail(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	origin := network(address)
	if s.failed < failedOfAll && s.stored[origin] < failedPerAddress {
		s.begin()
		s.failed++
		s.stored[origin]++
		return true
	}
	s.more.failed++
	if _, known := s.more.by[origin]; known || len(s.more.by) < maxOrigins {
		s.more.by[origin]++
	}
	return false
}

// pass is the same for what a key may do: sign in, and out.
func (s *signIns) pass(keyID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored[keyID] < madePerKey && len(s.stored) < maxOrigins {
		s.begin()
		s.stored[keyID]++
		return true
	}
	s.more.made++
	return false
}

func (s *signIns) begin() {
	if s.since.IsZero() {
		s.since = s.clock()
	}
}

// over ends a window that is over, or any, and returns what was not stored.
func (s *signIns) over(anyway bool) (more countedSignIns, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.clock().Sub(s.since)
	if s.since.IsZero() || !anyway && age >= 0 && age < signInWindow {
		return countedSignIns{}, time.Time{}
	}
	more, since = s.more, s.since
	s.since, s.stored, s.failed, s.more = time.Time{}, map[string]int{}, 0, countedSignIns{by: map[string]int64{}}
	return more, since
}

func (c countedSignIns) String() string {
	var parts []string
	if c.failed > 0 {
		most := ""
		for address, n := range c.by {
			if most == "" || n > c.by[most] || n == c.by[most] && address < most {
				most = address
			}
		}
		parts = append(parts, fmt.Sprintf("%d more that failed, from %d addresses, %d of them from %s", c.failed, len(c.by), c.by[most], most))
	}
	if c.made > 0 {
		parts = append(parts, fmt.Sprintf("%d more of keys that signed in or out", c.made))
	}
	return strings.Join(parts, "; ")
}

// SumUpSignIns writes what was counted and not stored of a window that is over;
// at the end of the process, of one that is not.
func (s *Server) SumUpSignIns(ctx context.Context, atEnd bool) error {
	more, since := s.signIns.over(atEnd)
	if more.failed == 0 && more.made == 0 {
		return nil
	}
	e := budget.AuditEntry{Who: nobody, What: "POST /session since " + since.UTC().Format(time.RFC3339), When: s.Clock(), Result: more.String()}
	if err := s.Ledger.AppendAudit(ctx, e); err != nil {
		return fmt.Errorf("write how many sign-ins there were: %w", err)
	}
	return nil
}

// network is what counts as one address: who has one of IPv6 has a whole /64.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}

// addressOf is who is at the other end of the connection.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return ""
	}
	return host
}

// problemStatus is the status with which err is a verdict on the caller, or 0.
func problemStatus(err error) int {
	var p *problem
	if !errors.As(err, &p) {
		return 0
	}
	return p.status
}
