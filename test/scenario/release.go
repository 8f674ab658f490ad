package scenario

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// ReleasedOnce is story 6 with C131: 30 releases at once from two clients and
// a crash in between are one credit, and it comes after the last process is
// gone.
func ReleasedOnce(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	a.Submit("twice", 2, nil)
	a.Ready("twice")
	a.Submit("heir", 2, nil)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			who, path := a, "/requests/twice/release"
			if i%2 == 1 {
				who, path = admin, path+"?tenant=team-a"
			}
			if ans, err := who.try("POST", path, nil); err != nil || ans.Status != 202 {
				t.Errorf("release %d: %v, status %d: %s", i, err, ans.Status, ans.Body)
			}
		}()
	}
	wg.Wait()
	h.Crash(t)
	h.Start(t)
	a.Released("twice")
	if n := h.Engines(t, "team-a", "twice"); n != 0 {
		t.Errorf("credited while %d processes live", n)
	}
	a.Ready("heir")
	if j := strings.Join(a.Journal("twice"), ", "); j != "reserve 2, release -2" {
		t.Errorf("journal: %s", j)
	}
	if u := Quota(t, h, "team-a"); u.Used != 2 {
		t.Errorf("used is %d, want 2 (the heir's)", u.Used)
	}
	if again := a.Release("twice"); again.State != "released" {
		t.Errorf("a late release: %+v", again)
	}
	VerifyClean(t, h)
}

// CreditWaitsForTheLastProcess holds a stream open over a release: the slots
// stay taken until the engine is gone, and the stream ends whole.
func CreditWaitsForTheLastProcess(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("draining", 1, map[string]any{"model": map[string]any{"args": []string{"--tokens=40", "--token-time=50ms"}}})
	a.Ready("draining")
	released := false
	s := a.Chat(context.Background(), "draining", nil, func(n int) {
		if n == 2 {
			a.Release("draining")
			released = true
		}
		if n == 20 {
			if r := a.Get("draining"); r.State != "reserved" || r.Held != 1 {
				t.Errorf("credited while a stream runs: %+v", r)
			}
		}
	})
	if !released || !s.Done || s.Chunks != 40 {
		t.Errorf("the running stream was not let finish: %+v", s)
	}
	a.Released("draining")
	if n := h.Engines(t, "team-a", "draining"); n != 0 {
		t.Errorf("credited while %d processes live", n)
	}
}

// WholeStory is story 7: submit, a call that times out, submit again, and one
// id answers all three questions; after the release the evidence stays.
func WholeStory(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	body := map[string]any{"model": map[string]any{"name": "tale", "args": []string{"--load-time=1500ms"}}}
	a.Submit("story", 1, body)
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	a.Chat(impatient, "tale", nil, nil)
	if again := a.Submit("story", 1, body); again.Submits != 2 {
		t.Errorf("submitted twice, counted %d", again.Submits)
	}
	a.Ready("story")
	a.MustChat("tale")
	three := func(e Evidence) bool {
		for _, answer := range []*bool{e.Answers.BudgetSpentOnce, e.Answers.ModelStarted, e.Answers.FirstChunkDelivered} {
			if answer == nil || !*answer {
				return false
			}
		}
		return e.BrokenAt == nil
	}
	Eventually(t, "three yes", func() bool { return three(a.Explain("story")) }, func() any { return a.Explain("story") })
	if _, facts := a.Explain("story").Step(t, "reserved"); facts["debits"] != float64(1) {
		t.Errorf("debits: %v", facts["debits"])
	}
	a.Release("story")
	a.Released("story")
	e := a.Explain("story")
	if !three(e) {
		t.Errorf("after the release the evidence changed: %+v", e)
	}
	for _, step := range []string{"deleting", "gone", "credited"} {
		if status, _ := e.Step(t, step); status != "ok" {
			t.Errorf("step %s is %s", step, status)
		}
	}
}
