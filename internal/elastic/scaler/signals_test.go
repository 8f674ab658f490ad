package scaler

import (
	"testing"
	"time"

	"modeldock.io/internal/delivery"
)

// Where one sleeps the next replica is woken, and where another one may sleep the
// one that is given up is woken in its turn; the policy is fitted to how long that
// takes, otherwise to a whole start. Who sleeps is no replica.
func TestTheLadderIsMeasured(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	started := delivery.Replica{UID: "a", Phase: delivery.PhaseReady, PlacedAt: noon, ReadyAt: noon.Add(time.Minute)}
	woken := delivery.Replica{UID: "b", Phase: delivery.PhaseReady, PlacedAt: noon, WokenAt: noon, ReadyAt: noon.Add(3 * time.Second)}
	asleep := delivery.Replica{UID: "c", Phase: delivery.PhaseAsleep, PlacedAt: noon, WokenAt: noon}
	loading := delivery.Replica{UID: "d", Phase: delivery.PhaseLoading, PlacedAt: noon}
	pending := delivery.Replica{Phase: delivery.PhasePending}
	m := newModel()
	for _, step := range []struct {
		what       string
		replicas   []delivery.Replica
		next, back time.Duration // where one may sleep
	}{
		{"nothing is known", nil, 0, 0},
		{"one sleeps, and none was ever woken", []delivery.Replica{asleep}, 0, 0},
		{"one was started", []delivery.Replica{started}, time.Minute, time.Minute},
		{"beside one that sleeps", []delivery.Replica{started, asleep}, time.Minute, time.Minute},
		{"one was woken, and none sleeps", []delivery.Replica{started, woken}, time.Minute, 3 * time.Second},
		{"one still loads, which could not sleep", []delivery.Replica{woken, loading}, time.Minute, time.Minute},
		{"one waits for a card", []delivery.Replica{woken, pending}, time.Minute, 3 * time.Second},
		{"one was woken, and one sleeps", []delivery.Replica{woken, asleep}, 3 * time.Second, time.Minute},
		{"that one sleeps no more", []delivery.Replica{woken}, time.Minute, 3 * time.Second},
	} {
		m.measure(delivery.Status{Replicas: step.replicas})
		l := m.ladder
		l.Places = 1
		if next, back := l.Next(), l.Back(); next != step.next || back != step.back {
			t.Errorf("%s: the next replica takes %s, want %s; to have one back %s, want %s", step.what, next, step.next, back, step.back)
		}
		if l.Places = 0; l.Back() != l.Start {
			t.Errorf("%s: none may sleep, and to have one back takes %s", step.what, l.Back())
		}
	}
	list, since := pods(delivery.Status{Replicas: []delivery.Replica{woken, asleep}})
	if len(list) != 1 || list[0].Name != "b" || !since.Equal(woken.ReadyAt) {
		t.Errorf("replicas %+v, ready since %s", list, since)
	}
}
