//go:build cluster

package oncluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// Story 3 on a cluster, with C031: every process of ours dies by kill -9 as
// soon as the object is there, which is before, while or after its UID is
// bound. Afterwards there is one object, one debit and one Pod.
func TestCreatedAndKilled(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{Tenant: 10, Pool: 10})
	a := scenario.As(t, i, "team-a")
	bound := 0
	for n := range 4 {
		id := fmt.Sprint("lost-", n)
		name := Object("team-a", id)
		submitted := make(chan struct{})
		go func() {
			defer close(submitted)
			a.Do(http.MethodPost, "/requests", map[string]any{"id": id, "cost": 1, "priority": 1})
		}()
		uid := ""
		for deadline := time.Now().Add(scenario.Patience); uid == "" && time.Now().Before(deadline); {
			uid, _ = i.Kubectl(t.Context(), "get", "modelservice", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
		}
		<-submitted
		i.Crash(t)
		i.Start(t)
		r := a.Ready(id)
		if r.Object.UID != uid {
			t.Errorf("%s was made with uid %s and is bound to %s", id, uid, r.Object.UID)
		}
		if j := strings.Join(a.Journal(id), ", "); j != "reserve 1" || r.Held != 1 {
			t.Errorf("journal of %s: %s; held %d", id, j, r.Held)
		}
		if pods := i.Engines(t, "team-a", id); pods != 1 {
			t.Errorf("%s has %d Pods", id, pods)
		}
		bound++
	}
	if objects := strings.Fields(kubectl(t, i, "get", "modelservices", "-o", "name")); len(objects) != bound {
		t.Errorf("%d objects for %d requests: %v", len(objects), bound, objects)
	}
	scenario.VerifyClean(t, i)
}

// C132 and C134: while the last Pod still ends, nothing is credited and nobody
// else is let in; everything of ours is killed after the Pod is gone, at
// whatever moment that is, and there is one credit.
func TestCreditComesAfterTheLastPod(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{})
	a := scenario.As(t, i, "team-a")
	a.Submit("slow", 2, engine("--tokens=60", "--token-time=50ms"))
	a.Ready("slow")
	a.Submit("heir", 2, engine())
	a.Until("heir", "QuotaBlocked", func(r scenario.Record) bool { return r.Reason == "QuotaBlocked" })
	whole := make(chan scenario.Stream, 1)
	began := make(chan struct{})
	go func() {
		whole <- a.Chat(context.Background(), "slow", nil, func(n int) {
			if n == 1 {
				close(began)
			}
		})
	}()
	<-began
	a.Release("slow")
	scenario.Eventually(t, "the last Pod to be gone", func() bool {
		heir := a.Get("heir") // asked first: what is true later is no proof
		n := i.Engines(t, "team-a", "slow")
		if n > 0 && heir.State != "waiting" {
			t.Fatalf("%d Pods still end and the heir is %+v", n, heir)
		}
		return n == 0
	}, func() any { return a.Get("slow") })
	if s := <-whole; !s.Done || s.Chunks != 60 {
		t.Errorf("the running stream was not let finish: %+v", s)
	}
	i.Crash(t)
	i.Start(t)
	a.Released("slow")
	a.Ready("heir")
	if j := strings.Join(a.Journal("slow"), ", "); j != "reserve 2, release -2" {
		t.Errorf("journal: %s", j)
	}
	scenario.VerifyClean(t, i)
}

// C074: a gateway that starts while a model has no replica holds its callers,
// and tells a model that is not there from one that is not there yet.
func TestColdModelIsKnown(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{})
	a, b := scenario.As(t, i, "team-a"), scenario.As(t, i, "team-b")
	a.Submit("cold", 1, engine("--load-time=8s"))
	scenario.Eventually(t, "its Pod", func() bool { return i.Engines(t, "team-a", "cold") == 1 }, func() any { return a.Get("cold") })
	gateway := i.Gateways[0]
	if err := gateway.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := a.Chat(context.Background(), "cold", nil, nil); s.Status != 200 || !s.Done {
		t.Errorf("a caller of a model that loads: %+v", s)
	}
	for _, s := range []scenario.Stream{a.Chat(context.Background(), "nothing", nil, nil), b.Chat(context.Background(), "team-a/cold", nil, nil)} {
		if s.Status != 404 || s.Code != "model_not_found" {
			t.Errorf("an unknown model, or another tenant's: %+v", s)
		}
	}
}

// Story 4 with C043: with nothing to change, nothing is written, over a round of
// reconciliation and a touched label.
func TestIdleIsSilent(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{Tenant: 10, Pool: 10})
	a := scenario.As(t, i, "team-a")
	for n := range 3 {
		body := engine()
		body["model"].(map[string]any)["env"] = map[string]string{"E": "5", "D": "4", "C": "3", "B": "2", "A": "1"}
		a.Submit(fmt.Sprint("idle-", n), 1, body)
	}
	for n := range 3 {
		a.Ready(fmt.Sprint("idle-", n))
	}
	var from time.Time
	writes := func() (list []string) {
		events, err := i.Ground.Cluster.Audit()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Received.After(from) && e.Writes() && e.ObjectRef.Resource != "leases" && strings.HasPrefix(e.User.Username, "system:serviceaccount:modeldock-system-"+i.Name()+":") {
				list = append(list, e.Received.Format(time.TimeOnly)+" "+e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource+" "+e.ObjectRef.Name)
			}
		}
		return list
	}
	if len(writes()) == 0 {
		t.Fatal("the audit shows no write at all: it proves nothing")
	}
	// What readiness has set off settles first.
	for n := -1; n != 0; {
		from = time.Now()
		time.Sleep(5 * time.Second) // a span that is looked at, not one that is hoped for
		n = len(writes())
	}
	from = time.Now()
	kubectl(t, i, "label", "modelservices", "--all", "touched=yes")
	kubectl(t, i, "annotate", "deployments", "--all", "touched=yes")
	time.Sleep(70 * time.Second) // the operator and the walk both ways look at everything once a minute
	if list := writes(); len(list) > 0 {
		t.Errorf("%d writes with nothing to change:\n%s", len(list), strings.Join(list, "\n"))
	}
}
