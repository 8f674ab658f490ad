package scenario

import (
	"context"
	"strings"
	"testing"
)

// Patch changes a request for the generation that it has now.
func (c Caller) Patch(id string, change map[string]any) Answer {
	c.t.Helper()
	body := map[string]any{"generation": c.Get(id).Generation}
	for k, v := range change {
		body[k] = v
	}
	return c.Do("PATCH", "/requests/"+id, body)
}

// Replicas sets the count that always runs.
func (c Caller) Replicas(id string, least int) Record {
	c.t.Helper()
	a := c.Patch(id, map[string]any{"replicas": map[string]any{"min": least}})
	if a.Status != 200 {
		c.t.Fatalf("%d replicas of %s: status %d: %s", least, id, a.Status, a.Body)
	}
	return record(c.t, a)
}

// Runs waits until exactly n replicas are funded, ready, held for and there.
func (c Caller) Runs(id string, n int) Record {
	c.t.Helper()
	r := c.Until(id, "its replicas", func(r Record) bool {
		return r.FundedReplicas == n && r.ReadyReplicas == n && r.Held == r.Cost*int64(n)
	})
	if got := c.h.Engines(c.t, c.who, id); got != n {
		c.t.Errorf("%s has %d processes, want %d", id, got, n)
	}
	return r
}

// GrowsAndShrinks raises and lowers a running model: more replicas are paid
// for before they start, too many are refused with figures and change nothing,
// and a lowered count gives its slots to whoever waits once the process is gone.
func GrowsAndShrinks(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("elastic", 1, nil)
	a.Ready("elastic")
	_, first := a.Explain("elastic").Step(t, "started")

	grown := a.Replicas("elastic", 2)
	if grown.Held != 2 || grown.FundedReplicas != 2 || grown.Generation != 2 {
		t.Errorf("right after the change: %+v", grown)
	}
	r := a.Runs("elastic", 2)
	if j := strings.Join(a.Journal("elastic"), ", "); j != "reserve 1, grow 1" {
		t.Errorf("journal: %s", j)
	}

	refused := a.Patch("elastic", map[string]any{"replicas": map[string]any{"min": 3}})
	if code, message, _ := refused.Error(t); refused.Status != 409 || code != "budget_blocked" || !strings.Contains(message, "1 more slots") || !strings.Contains(message, "team-a holds 2 of 2") {
		t.Errorf("beyond the quota: status %d: %s: %s", refused.Status, code, message)
	}
	stale := a.Do("PATCH", "/requests/elastic", `{"generation":1,"replicas":{"min":1}}`)
	if code, _, _ := stale.Error(t); stale.Status != 409 || code != "stale_generation" {
		t.Errorf("for an old generation: status %d: %s", stale.Status, code)
	}
	if now := a.Get("elastic"); now.Revision != r.Revision || now.Held != 2 || h.Engines(t, "team-a", "elastic") != 2 {
		t.Errorf("the refused changes left %+v, was %+v", now, r)
	}

	// A weight is nobody's business but the gateway's: no process is replaced.
	if w := a.Patch("elastic", map[string]any{"traffic": map[string]any{"weight": 7}}); w.Status != 200 {
		t.Errorf("weight: %s", w.Body)
	}
	if _, now := a.Explain("elastic").Step(t, "started"); now["replicaUid"] != first["replicaUid"] || now["ready"] != float64(2) {
		t.Errorf("a new weight replaced %v by %v", first, now)
	}

	a.Submit("heir", 1, nil)
	a.Until("heir", "QuotaBlocked", func(r Record) bool { return r.Reason == "QuotaBlocked" })
	a.Replicas("elastic", 1)
	Eventually(t, "the slot to come back", func() bool {
		r = a.Get("elastic")
		if left := h.Engines(t, "team-a", "elastic"); r.Held < 2 && left > 1 {
			t.Fatalf("credited while %d processes live: %+v", left, r)
		}
		return r.Held == 1
	}, func() any { return r })
	a.Runs("elastic", 1)
	a.Ready("heir")
	if s := a.Chat(context.Background(), "elastic", nil, nil); !s.Done {
		t.Errorf("the replica that stays does not answer: %+v", s)
	}
	if j := strings.Join(a.Journal("elastic"), ", "); j != "reserve 1, grow 1, shrink -1" {
		t.Errorf("journal: %s", j)
	}
	if e := a.Explain("elastic"); e.BrokenAt != nil || e.Answers.BudgetSpentOnce == nil || !*e.Answers.BudgetSpentOnce {
		t.Errorf("explain says %+v", e)
	}
	VerifyClean(t, h)
	for _, id := range []string{"elastic", "heir"} {
		a.Release(id)
		a.Released(id)
	}
	if u := Quota(t, h, "team-a"); u.Used != 0 {
		t.Errorf("used is %d after all was released", u.Used)
	}
	final := a.Do("PATCH", "/requests/elastic", `{"generation":4,"replicas":{"min":1}}`)
	if code, _, _ := final.Error(t); final.Status != 409 || code != "final_state" {
		t.Errorf("after the release: status %d: %s", final.Status, code)
	}
	VerifyClean(t, h)
}

// ShrinkSurvivesACrash kills the control plane right after a count was
// lowered and right after it was raised again: one credit, one debit, and as
// many processes as are paid for.
func ShrinkSurvivesACrash(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("elastic", 1, map[string]any{"model": map[string]any{"replicas": map[string]any{"min": 2}}})
	a.Runs("elastic", 2)
	a.Replicas("elastic", 1)
	h.Crash(t)
	h.Start(t)
	a.Runs("elastic", 1)
	a.Replicas("elastic", 2)
	h.Crash(t)
	h.Start(t)
	a.Runs("elastic", 2)
	if j := strings.Join(a.Journal("elastic"), ", "); j != "reserve 2, shrink -1, grow 1" {
		t.Errorf("journal: %s", j)
	}
	a.Replicas("elastic", 1)
	a.Release("elastic") // before or after the credit: all comes back, once
	a.Released("elastic")
	if u := Quota(t, h, "team-a"); u.Used != 0 || h.Engines(t, "team-a", "elastic") != 0 {
		t.Errorf("used is %d after all was released", u.Used)
	}
	VerifyClean(t, h)
}
