package scenario

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Local is a platform whose engines are processes of this machine.
type Local interface {
	Harness
	// EnginePIDs are the living engine processes of a reservation.
	EnginePIDs(t testing.TB, tenant, id string) []int
	// KillEngine ends one of them by SIGKILL.
	KillEngine(t testing.TB, pid int)
}

// SleepersShareOneCard says that two models that fit a card only one at a time
// take turns without being loaded anew: whoever is not called sleeps with its
// own process, which is the one that serves again when it is called, and the
// card is never counted twice. A sleeping engine that is killed, or whose
// ModelDock is, leaves nothing behind. The platform has one card of 10 000 MiB
// and a residence of some seconds.
func SleepersShareOneCard(t *testing.T, h Local) {
	a := As(t, h, "team-a")
	for i, id := range []string{"left", "right"} {
		a.Submit(id, 1, map[string]any{"model": map[string]any{
			"gpuMemoryMiB": 8000, "replicas": map[string]any{"min": 0, "max": 1},
			"args":    []string{"--load-time=200ms", "--tokens=4", "--token-time=1ms", "--wake-delay=50ms"},
			"scaling": map[string]any{"idleSeconds": 600, "asleep": 1},
		}})
		if i == 0 {
			a.Ready(id)
		}
	}
	a.Until("right", "NoCardFits", func(r Record) bool { return r.Reason == "NoFragmentFits" })
	left := h.EnginePIDs(t, "team-a", "left")
	address := a.Endpoint("left")
	turn(t, h, "right", "left")
	right := h.EnginePIDs(t, "team-a", "right")
	for n := 1.0; n <= 2; n++ {
		turn(t, h, "left", "right")
		if got := engineMetric(t, address, "modeldock_simulated_wakes_total"); got != n {
			t.Errorf("the engine says that it was woken %g times, want %g", got, n)
		}
		turn(t, h, "right", "left")
		if l, r := h.EnginePIDs(t, "team-a", "left"), h.EnginePIDs(t, "team-a", "right"); !slices.Equal(l, left) || !slices.Equal(r, right) || len(l) != 1 || len(r) != 1 {
			t.Fatalf("processes %v and %v serve, they were %v and %v", l, r, left, right)
		}
	}
	if u := Quota(t, h, "team-a"); u.Used != 2 {
		t.Errorf("%d slots are used, want 2", u.Used)
	}
	// A sleeper that is killed is gone, and the next call starts another.
	h.KillEngine(t, left[0])
	Eventually(t, "the killed sleeper to be forgotten", func() bool {
		return h.Engines(t, "team-a", "left") == 0 && !strings.Contains(a.Get("left").Message, "host memory")
	}, func() any { return a.Get("left") })
	turn(t, h, "left", "right")
	if now := h.EnginePIDs(t, "team-a", "left"); len(now) != 1 || now[0] == left[0] {
		t.Errorf("process %v serves, %v was killed", now, left)
	}
	// So is one whose ModelDock is killed.
	h.Crash(t)
	for _, id := range []string{"left", "right"} {
		Eventually(t, "the engines of "+id+" to end with their ModelDock", func() bool { return h.Engines(t, "team-a", id) == 0 }, func() any { return h.EnginePIDs(t, "team-a", id) })
	}
	h.Start(t)
	a.Ready("left")
	if r := a.Get("right"); r.Reason != "ScaledToZero" || strings.Contains(r.Message, "host memory") || h.Engines(t, "team-a", "right") != 0 {
		t.Errorf("after the crash: %+v", r)
	}
	turn(t, h, "right", "left")
	VerifyClean(t, h)
}

// turn calls one model and waits until the other sleeps.
func turn(t *testing.T, h Local, called, sleeps string) {
	t.Helper()
	a := As(t, h, "team-a")
	a.MustChat(called)
	a.Until(sleeps, "asleep, and loaded", func(r Record) bool {
		return r.Reason == "ScaledToZero" && strings.Contains(r.Message, "1 stay loaded in host memory")
	})
	if n := h.Engines(t, "team-a", sleeps); n != 1 {
		t.Errorf("%s sleeps with %d processes", sleeps, n)
	}
	if s := a.Scaling(sleeps); s.Asleep != 1 || s.Ready != 0 || s.Running != 0 {
		t.Errorf("%s sleeps: %+v", sleeps, s)
	}
	for _, id := range []string{called, sleeps} {
		if e := a.Explain(id); e.BrokenAt != nil || e.Answers.ModelStarted == nil || !*e.Answers.ModelStarted {
			t.Errorf("%s: explain says %+v", id, e)
		}
	}
	var nodes struct {
		Items []struct {
			Cards []struct {
				AllocatedMiB int64
				Allocations  []struct{ RequestID string }
			}
		}
	}
	if err := json.Unmarshal(As(t, h, "admin").Must(http.StatusOK, "GET", "/nodes", nil).Body, &nodes); err != nil {
		t.Fatal(err)
	}
	if card := nodes.Items[0].Cards[0]; card.AllocatedMiB != 8000 || len(card.Allocations) != 1 || card.Allocations[0].RequestID != called {
		t.Errorf("%s serves and %s sleeps; the card has %+v", called, sleeps, card)
	}
}
