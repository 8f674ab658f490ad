package kube

import (
	"errors"
	"time"
)

var errWatchEnded = errors.New("the watch ended")

const (
	// reopening is how long a watch may take to be opened again, as happens
	// every few minutes, before what is shown is doubted.
	reopening = time.Second
	// listening is how long an open watch may be silent before it counts: one
	// that an intermediary ends at once is none.
	listening = 500 * time.Millisecond
)

// ear judges whether a watch is listened to. It is pure; its owner locks it.
type ear struct {
	openedAt time.Time // zero: no watch is open
	lostAt   time.Time // zero: nothing was missed
	why      error
}

func (e *ear) open(now time.Time) { e.openedAt = now }

// event was heard: the watch is a real one.
func (e *ear) event(time.Time) { e.lostAt, e.why = time.Time{}, nil }

// fail ends a watch, or the attempt to open one.
func (e *ear) fail(now time.Time, why error) {
	if _, deaf := e.deaf(now); deaf == nil && e.lostAt.IsZero() {
		e.lostAt = now
	}
	e.openedAt, e.why = time.Time{}, why
}

// deaf says since when nothing is heard, and why; a nil error: it is heard.
func (e *ear) deaf(now time.Time) (time.Time, error) {
	if !e.openedAt.IsZero() && now.Sub(e.openedAt) >= listening {
		e.lostAt, e.why = time.Time{}, nil
	}
	if e.lostAt.IsZero() || now.Sub(e.lostAt) < reopening {
		return time.Time{}, nil
	}
	return e.lostAt, e.why
}
