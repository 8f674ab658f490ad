package kube

import (
	"errors"
	"testing"
	"time"
)

func TestEar(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	away := errors.New("connection refused")
	for name, c := range map[string]struct {
		live func(e *ear, at func(ms int) time.Time)
		ms   int
		deaf error
	}{
		"nothing was tried yet": {func(*ear, func(int) time.Time) {}, 60_000, nil},
		"open and silent":       {func(e *ear, at func(int) time.Time) { e.open(at(0)) }, 600_000, nil},
		"just ended":            {func(e *ear, at func(int) time.Time) { e.open(at(0)); e.fail(at(5000), errWatchEnded) }, 5900, nil},
		"ended a while ago":     {func(e *ear, at func(int) time.Time) { e.open(at(0)); e.fail(at(5000), errWatchEnded) }, 6000, errWatchEnded},
		"ended, and cannot be again": {func(e *ear, at func(int) time.Time) {
			e.open(at(0))
			e.fail(at(5000), errWatchEnded)
			e.fail(at(5500), away)
		}, 6000, away},
		"opened again":           {func(e *ear, at func(int) time.Time) { e.open(at(0)); e.fail(at(5000), away); e.open(at(7000)) }, 7500, nil},
		"opened again, just now": {func(e *ear, at func(int) time.Time) { e.open(at(0)); e.fail(at(5000), away); e.open(at(7000)) }, 7100, away},
		"opened again and heard": {func(e *ear, at func(int) time.Time) { e.fail(at(5000), away); e.open(at(7000)); e.event(at(7001)) }, 7002, nil},
		"ended at once, for ever": {func(e *ear, at func(int) time.Time) {
			e.open(at(0))
			for ms := 5000; ms < 60_000; ms += 300 {
				e.open(at(ms))
				e.fail(at(ms+1), errWatchEnded)
			}
		}, 60_000, errWatchEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
			var e ear
			c.live(&e, at)
			if _, got := e.deaf(at(c.ms)); !errors.Is(got, c.deaf) {
				t.Errorf("deaf for %v, want %v", got, c.deaf)
			}
		})
	}
}
