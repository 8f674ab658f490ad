//go:build cluster

package oncluster

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/test/scenario"
)

// yielding is a model of 14 000 MiB, of which a card holds one.
func yielding(least int) map[string]any {
	return asking(14000, map[string]any{
		"replicas": map[string]any{"min": least, "max": 1}, "scaling": map[string]any{"idleSeconds": 600}, "coldStart": map[string]any{"timeoutSeconds": 300},
	})
}

// idleMakesRoom: where the cards are full, a model that is called gets the card
// of one that nobody calls, and back; who pays to be kept warm keeps its own.
func (w *withCards) idleMakesRoom(t *testing.T) {
	w.a.Submit("left", 1, yielding(0))
	_, card := w.placedOn(t, "left")
	w.a.Submit("owned", 1, yielding(1))
	_, other := w.placedOn(t, "owned")
	w.a.Submit("right", 1, yielding(0))
	w.a.Until("right", "NoCardFits", func(r scenario.Record) bool { return r.Reason == "NoFragmentFits" })
	if card == other {
		t.Fatalf("two of 14000 MiB are on %s", card)
	}
	for _, turn := range []struct{ called, idle string }{{"right", "left"}, {"left", "right"}} {
		w.a.MustChat(turn.called)
		if _, on := w.placedOn(t, turn.called); on != card {
			t.Errorf("%s is on %s, and %s had %s", turn.called, on, turn.idle, card)
		}
		w.a.UntilScaled(turn.called, "what it was given", func(s scenario.Scaling) bool { return s.Did("MadeRoom") })
		s := w.a.UntilScaled(turn.idle, "what it gave", func(s scenario.Scaling) bool { return s.Did("Yielded") })
		if s.Wanted != 0 || s.Funded != 1 {
			t.Errorf("who gave its card is asked for %d, and %d are paid for: %+v", s.Wanted, s.Funded, s)
		}
		for _, d := range s.Items {
			if d.Reason == "Yielded" && !strings.Contains(d.Message, "made room for team-a/"+turn.called) {
				t.Errorf("it gave its card, and says %q", d.Message)
			}
		}
	}
	if s := w.a.Scaling("owned"); s.Ready != 1 || s.Did("Yielded") {
		t.Errorf("who pays to be kept warm: %+v", s)
	}
	for _, id := range []string{"left", "right", "owned"} {
		w.a.Release(id)
		w.a.Released(id)
	}
}

// warmReport is the part of a warm pool's report that this test looks at.
type warmReport struct {
	SpentToday float64
	Classes    []struct {
		Buffers struct{ Wanted, Kept, Ready int }
		Why     string
	}
}

func (w *withCards) warm(t *testing.T, admin scenario.Caller) (r warmReport) {
	t.Helper()
	var list struct{ Items []warmReport }
	if err := json.Unmarshal(admin.Must(http.StatusOK, http.MethodGet, "/warmpools", nil).Body, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 1 {
		return list.Items[0]
	}
	return r
}

// roomIsKept: Pods that do nothing hold the cards, are charged for, give them to
// a model that starts, and go when nobody wants them.
func (w *withCards) roomIsKept(t *testing.T) {
	admin := scenario.As(t, w, "admin")
	ready := func(want int) warmReport {
		t.Helper()
		var r warmReport
		scenario.Eventually(t, "so many buffers with cards", func() bool {
			r = w.warm(t, admin)
			return len(r.Classes) == 1 && r.Classes[0].Buffers.Ready == want
		}, func() any { return r })
		return r
	}
	admin.Must(http.StatusOK, http.MethodPut, "/warmpools/default", map[string]any{"gpuHoursPerDay": 100, "classes": []map[string]any{
		{"class": "llm", "buffers": 2, "gpuMemoryMiB": 14000},
	}})
	ready(2)
	if n := w.real(t); n.LargestFragmentMiB != room-14000 {
		t.Errorf("two buffers of 14000 MiB leave %d MiB", n.LargestFragmentMiB)
	}
	w.a.Submit("urgent", 1, asking(14000, nil))
	w.placedOn(t, "urgent") // although no card has room beside the buffers
	w.a.MustChat("urgent")
	if r := ready(1); r.SpentToday <= 0 || r.Classes[0].Buffers.Kept != 2 || r.Classes[0].Why != "" {
		t.Errorf("one buffer was displaced: %+v", r)
	}
	w.a.Release("urgent")
	w.a.Released("urgent")
	ready(2) // the one that was displaced has a card again
	admin.Must(http.StatusOK, http.MethodPut, "/warmpools/default", map[string]any{})
	scenario.Eventually(t, "nobody to hold anything", func() bool { return w.real(t).LargestFragmentMiB == room }, func() any { return w.nodes(t) })
	scenario.Eventually(t, "no Deployment to keep room", func() bool {
		return strings.TrimSpace(kubectl(t, w.Installation, "get", "deployments", "-l", "modeldock.io/buffer", "-o", "name")) == ""
	}, func() any { return kubectl(t, w.Installation, "get", "deployments") })
}
