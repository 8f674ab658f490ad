// Package outage serves all accounts: it tells the log of an outage in two
// lines, however many calls fail by it. One is written when it begins, one with
// their number when it is over.
package outage

import (
	"log/slog"
	"sync"
	"time"
)

// Quiet is how long nothing may have failed before a success ends an outage:
// where some calls work and others do not, it is still the same one.
const Quiet = 10 * time.Second

// Log tells of the outages of one thing. Its methods may be called at once.
type Log struct {
	log   *slog.Logger
	clock func() time.Time
	what  string

	mu     sync.Mutex
	begun  time.Time // zero: there is none
	latest time.Time // failure
	failed int
}

// New returns the log of what: a constant message such as "ledger unavailable".
func New(log *slog.Logger, clock func() time.Time, what string) *Log {
	return &Log{log: log, clock: clock, what: what}
}

// Failed counts a call that failed, and tells of it if it is the first. More is
// said of that one alone.
func (l *Log) Failed(err error, more ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	l.failed, l.latest = l.failed+1, now
	if l.begun.IsZero() {
		l.begun = now
		l.log.Error(l.what, append(more, "error", err, "until it is over", "counted")...)
	}
}

// Works notes a call that did not fail, and tells of the end of an outage.
func (l *Log) Works() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if l.begun.IsZero() || now.Sub(l.latest) < Quiet && !now.Before(l.latest) {
		return
	}
	l.log.Info(l.what+": over", "failed", l.failed, "lasted", l.latest.Sub(l.begun).Round(time.Millisecond))
	l.begun, l.failed = time.Time{}, 0
}
