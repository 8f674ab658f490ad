package scenario

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// CapHolds is story 2 with C019: 20 concurrent submits against cap 2 make
// exactly 2 reservations at every sampled moment; rows, used, journal and
// outbox agree, and what is blocked has no process anywhere.
func CapHolds(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	ctx, stop := context.WithCancel(context.Background())
	var sampler, submits sync.WaitGroup
	sampler.Add(1)
	go func() {
		defer sampler.Done()
		for ctx.Err() == nil {
			if u := Quota(t, h, "team-a"); u.Used > u.Cap {
				t.Errorf("sampled %d used of %d", u.Used, u.Cap)
			}
			VerifyClean(t, h)
		}
	}()
	for i := range 20 {
		submits.Add(1)
		go func() {
			defer submits.Done()
			ans, err := a.try("POST", "/requests", map[string]any{"id": fmt.Sprintf("r%02d", i), "cost": 1, "priority": 50})
			if err != nil || ans.Status != 202 {
				t.Errorf("submit r%02d: %v, status %d: %s", i, err, ans.Status, ans.Body)
			}
		}()
	}
	submits.Wait()
	var reserved, waiting []string
	Eventually(t, "2 of 20 to be reserved", func() bool {
		reserved, waiting = split(t, a) // two calls: one may have moved in between
		return len(reserved) == 2 && len(waiting) == 18
	}, func() any { return append(reserved, waiting...) })
	stop()
	sampler.Wait()
	if len(reserved) != 2 || len(waiting) != 18 {
		t.Fatalf("%d reserved and %d waiting, want 2 and 18", len(reserved), len(waiting))
	}
	for _, id := range reserved {
		a.Ready(id)
		if n := h.Engines(t, "team-a", id); n != 1 {
			t.Errorf("%s is ready and has %d processes, want 1", id, n)
		}
		if j := a.Journal(id); len(j) != 1 || j[0] != "reserve 1" {
			t.Errorf("journal of %s: %v", id, j)
		}
		if _, facts := a.Explain(id).Step(t, "delivered"); facts["attempts"] == nil || facts["uid"] == nil {
			t.Errorf("%s has no delivered outbox row: %v", id, facts)
		}
	}
	for _, id := range waiting {
		r := a.Get(id)
		if r.Reason != "QuotaBlocked" || r.Message != "tenant team-a holds 2 of 2 slots; this request needs 1" {
			t.Errorf("%s: %s: %q", id, r.Reason, r.Message)
		}
		if n := h.Engines(t, "team-a", id); n != 0 || r.Object.UID != "" {
			t.Errorf("%s is blocked and has %d processes and object %+v", id, n, r.Object)
		}
		if e := a.Explain(id); e.BrokenAt == nil || *e.BrokenAt != "reserved" || e.Reason != "QuotaBlocked" {
			t.Errorf("%s: explain says %+v", id, e)
		}
	}
	if u := Quota(t, h, "team-a"); u.Used != 2 {
		t.Errorf("used is %d, want 2", u.Used)
	}
	a.Release(reserved[0])
	a.Released(reserved[0])
	Eventually(t, "the next one to be reserved", func() bool {
		now, _ := split(t, a)
		return len(now) == 2
	}, func() any { now, _ := split(t, a); return now })
	VerifyClean(t, h)
}

// split lists what is reserved and what waits.
func split(t *testing.T, c Caller) (reserved, waiting []string) {
	t.Helper()
	for state, ids := range map[string]*[]string{"reserved": &reserved, "waiting": &waiting} {
		items, _ := c.Must(http.StatusOK, "GET", "/requests?limit=1000&state="+state, nil).JSON(t)["items"].([]any)
		for _, item := range items {
			r, _ := item.(map[string]any)
			id, _ := r["id"].(string)
			*ids = append(*ids, id)
		}
	}
	return reserved, waiting
}

// FiftyAtOnce is C013: one record, one debit, 50 × 202.
func FiftyAtOnce(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	var wg sync.WaitGroup
	answers := make([]Answer, 50)
	for i := range answers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ans, err := a.try("POST", "/requests", `{"id":"race","cost":2,"priority":1}`)
			if err != nil {
				t.Errorf("submit %d: %v", i, err)
			}
			answers[i] = ans
		}()
	}
	wg.Wait()
	first := record(t, answers[0])
	for i, ans := range answers {
		if ans.Status != 202 {
			t.Fatalf("answer %d: status %d: %s", i, ans.Status, ans.Body)
		}
		if r := record(t, ans); r.CreatedAt != first.CreatedAt || r.Cost != 2 || r.Tenant != "team-a" {
			t.Errorf("answer %d is another record: %+v", i, r)
		}
	}
	r := a.Ready("race")
	if r.Submits != 50 || len(a.Journal("race")) != 1 || Quota(t, h, "team-a").Used != 2 {
		t.Errorf("submits %d, journal %v, used %d; want 50, one debit, 2", r.Submits, a.Journal("race"), Quota(t, h, "team-a").Used)
	}
	VerifyClean(t, h)
}

// ImpossibleHoldsNobody is C025: what can never fit says so and lets all pass.
func ImpossibleHoldsNobody(t *testing.T, h Harness) {
	a, b := As(t, h, "team-a"), As(t, h, "team-b")
	a.Submit("too-big-for-team", 3, map[string]any{"priority": 100})
	As(t, h, "admin").Must(200, "PUT", "/tenants/team-b/quota", map[string]any{"cap": 50})
	b.Submit("too-big-for-pool", 9, map[string]any{"priority": 100})
	a.Submit("small-a", 1, map[string]any{"priority": 1})
	b.Submit("small-b", 1, map[string]any{"priority": 1})
	a.Ready("small-a")
	b.Ready("small-b")
	if r := a.Get("too-big-for-team"); r.State != "waiting" || r.Reason != "ExceedsQuota" || r.Message == "" {
		t.Errorf("too big for the tenant: %+v", r)
	}
	if r := b.Get("too-big-for-pool"); r.State != "waiting" || r.Reason != "ExceedsPool" || r.Message == "" {
		t.Errorf("too big for the pool: %+v", r)
	}
}

// WakesForEveryReason is C028: a release, a higher quota, a larger pool and a
// restart right after a release each wake who waits, without a new request.
func WakesForEveryReason(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	a.Submit("full", 2, nil)
	a.Ready("full")
	a.Submit("next", 1, nil)
	blocked := func(id, reason string) {
		t.Helper()
		a.Until(id, reason, func(r Record) bool { return r.State == "waiting" && r.Reason == reason })
	}
	blocked("next", "QuotaBlocked")
	a.Release("full")
	a.Ready("next")

	a.Submit("by-quota", 2, nil)
	blocked("by-quota", "QuotaBlocked")
	admin.Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 3})
	a.Ready("by-quota")

	admin.Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 20})
	admin.Must(200, "PUT", "/pools/default", map[string]any{"cap": 3})
	a.Submit("by-pool", 2, nil)
	a.Until("by-pool", "ExceedsPool or PoolBlocked", func(r Record) bool { return r.Reason == "PoolBlocked" })
	admin.Must(200, "PUT", "/pools/default", map[string]any{"cap": 5})
	a.Ready("by-pool")

	a.Submit("after-crash", 2, nil)
	blocked("after-crash", "PoolBlocked")
	a.Release("by-pool")
	h.Crash(t)
	h.Start(t)
	a.Ready("after-crash")
	a.Released("by-pool")
	VerifyClean(t, h)
}
