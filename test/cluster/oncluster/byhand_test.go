//go:build cluster

package oncluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// walk is a little more than a minute: ledger and cluster are compared as often.
const walk = 100 * time.Second

func kubectl(t *testing.T, i *Installation, args ...string) string {
	t.Helper()
	out, err := i.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// creditedOnce holds a release that a person began with kubectl to the rules of
// all releases.
func creditedOnce(t *testing.T, i *Installation, c scenario.Caller, id string, cost int) {
	t.Helper()
	eventually(t, walk, "the slots of "+id, func() bool { return c.Get(id).State == "released" }, func() any { return c.Get(id) })
	if n := i.Engines(t, "team-a", id); n != 0 {
		t.Errorf("credited while %d Pods live", n)
	}
	if j := strings.Join(c.Journal(id), ", "); j != fmt.Sprintf("reserve %d, release -%d", cost, cost) {
		t.Errorf("journal: %s", j)
	}
	e := c.Explain(id)
	for _, step := range []string{"deleting", "gone", "credited"} {
		if status, _ := e.Step(t, step); status != "ok" {
			t.Errorf("step %s is %s: %+v", step, status, e)
		}
	}
	for _, s := range e.Steps {
		if s.Step == "deleting" && s.Reason != "DeletedByHand" {
			t.Errorf("explain does not say that it was deleted by hand: %+v", s)
		}
	}
	out, _ := i.Explain(t, "team-a", id)
	if !contains(out, "DeletedByHand", "did the slots come back once? yes") {
		t.Errorf("explain prints\n%s", out)
	}
}

// C137: `kubectl delete modelservice` is a release.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	a.Submit("by-hand", 3, engine())
	a.Ready("by-hand")
	kubectl(t, i, "delete", "modelservice", Object("team-a", "by-hand"), "--wait=false")
	creditedOnce(t, i, a, "by-hand", 3)
	if again := a.Release("by-hand"); again.State != "released" {
		t.Errorf("a release after that: %+v", again)
	}
	if again := a.Submit("by-hand", 3, engine()); again.State != "released" {
		t.Errorf("the id came to life again: %+v", again)
	}
}

// C137 with --cascade=orphan: children that were cut loose still hold their
// cards, and the slots with them.
func TestOrphanedByHand(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	a.Submit("orphaned", 2, engine())
	a.Ready("orphaned")
	kubectl(t, i, "delete", "modelservice", Object("team-a", "orphaned"), "--cascade=orphan", "--wait=false")
	eventually(t, walk, "the end of what was cut loose, or its slots kept", func() bool {
		r := a.Get("orphaned")
		if r.State == "released" && i.Engines(t, "team-a", "orphaned") > 0 {
			t.Fatalf("credited while Pods live: %+v", r)
		}
		return r.State == "released"
	}, func() any { return a.Explain("orphaned") })
	creditedOnce(t, i, a, "orphaned", 2)
}

// C131: many releases of all kinds at once are one credit.
func TestReleasedFromEverywhere(t *testing.T) {
	t.Parallel()
	i, a, admin := together(t)
	a.Submit("everywhere", 7, engine())
	a.Ready("everywhere")
	var all sync.WaitGroup
	for n := range 30 {
		all.Go(func() {
			switch n % 3 {
			case 0:
				a.Must(202, http.MethodPost, "/requests/everywhere/release", nil)
			case 1:
				admin.Must(202, http.MethodDelete, "/requests/everywhere?tenant=team-a", nil)
			case 2:
				_, _ = i.Kubectl(t.Context(), "delete", "modelservice", Object("team-a", "everywhere"), "--wait=false", "--ignore-not-found")
			}
		})
	}
	all.Wait()
	a.Released("everywhere")
	if j := strings.Join(a.Journal("everywhere"), ", "); j != "reserve 7, release -7" {
		t.Errorf("journal: %s", j)
	}
	if n := i.Engines(t, "team-a", "everywhere"); n != 0 {
		t.Errorf("credited while %d Pods live", n)
	}
	scenario.VerifyClean(t, i)
}

// C040: children that are deleted or edited come back as they were declared.
func TestChildrenComeBack(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "children")
	a.Submit("children", 1, engine())
	a.Ready("children")
	name := Object("team-a", "children")
	of := func(kind, path string) string {
		out, err := i.Kubectl(t.Context(), "get", kind, name, "-o", "jsonpath="+path)
		if err != nil {
			return err.Error()
		}
		return out
	}
	const image, replicas = "{.spec.template.spec.containers[0].image}", "{.spec.replicas}"
	declared := of("deployment", image)
	for what, change := range map[string][]string{
		"another image": {"set", "image", "deployment/" + name, "engine=nobody.test/none:1"},
		"too many Pods": {"scale", "deployment", name, "--replicas=3"},
		"a label more":  {"patch", "service", name, "--type=merge", "-p", `{"spec":{"selector":{"app":"nobody"}}}`},
		"no Service":    {"delete", "service", name},
		"no Deployment": {"delete", "deployment", name},
	} {
		kubectl(t, i, change...)
		scenario.Eventually(t, "the end of: "+what, func() bool {
			return of("deployment", image) == declared && of("deployment", replicas) == "1" &&
				!strings.Contains(of("service", "{.spec.selector}"), "nobody") && strings.Contains(of("service", "{.spec.selector}"), "modeldock")
		}, func() any { return of("deployment", "{.spec}") + of("service", "{.spec}") })
	}
	eventually(t, 2*scenario.Patience, "one Pod that serves", func() bool {
		return i.Engines(t, "team-a", "children") == 1 && a.Get("children").ReadyReplicas == 1
	}, func() any { return a.Explain("children") })
	a.MustChat("children")
	if j := strings.Join(a.Journal("children"), ", "); j != "reserve 1" {
		t.Errorf("journal: %s", j)
	}
}

// The scale subresource is open to anybody who may use it, and what runs stays
// within what is paid for; the walk both ways puts the number back.
func TestScaleIsBounded(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "scaled")
	a.Submit("scaled", 1, engine())
	a.Ready("scaled")
	name := Object("team-a", "scaled")
	kubectl(t, i, "scale", "modelservice", name, "--replicas=5")
	eventually(t, walk, "the number to be put back", func() bool {
		if n := i.Engines(t, "team-a", "scaled"); n > 1 {
			t.Fatalf("%d Pods run and 1 is paid for", n)
		}
		return kubectl(t, i, "get", "modelservice", name, "-o", "jsonpath={.spec.replicas}") == "1"
	}, func() any { return kubectl(t, i, "get", "modelservice", name, "-o", "jsonpath={.spec}") })
	if r := a.Get("scaled"); r.Held != 1 || r.ReadyReplicas != 1 {
		t.Errorf("the record: %+v", r)
	}
}

// An object of an ended request's name that somebody makes is not ours, with
// whatever UID: neither a release nor the walk both ways touches it.
func TestMadeAgainByHand(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	a.Submit("again", 1, engine())
	a.Ready("again")
	name := Object("team-a", "again")
	text := kubectl(t, i, "get", "modelservice", name, "-o", `jsonpath={"{"}"spec":{.spec}{"}"}`)
	a.Release("again")
	a.Released("again")
	object := `{"apiVersion":"modeldock.io/v1alpha1","kind":"ModelService","metadata":{"name":"` + name + `","namespace":"` + i.Namespace() + `"},` + text[1:]
	if err := i.Ground.Cluster.Apply(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	uid := kubectl(t, i, "get", "modelservice", name, "-o", "jsonpath={.metadata.uid}")
	a.Release("again")
	reported(t, i, "foreign", name)
	now := kubectl(t, i, "get", "modelservice", name, "-o", "jsonpath={.metadata.uid} {.metadata.deletionTimestamp}")
	if now != uid+" " {
		t.Errorf("the new object was %s and is %s", uid, now)
	}
	if j := strings.Join(a.Journal("again"), ", "); j != "reserve 1, release -1" {
		t.Errorf("journal: %s", j)
	}
	kubectl(t, i, "delete", "modelservice", name) // waits until it is gone
}

// An object that vanishes at once, its finalizer taken away by force, is found
// missing by the walk both ways: its reservation ends, after its last Pod.
func TestLost(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	a.Submit("lost", 4, engine())
	a.Ready("lost")
	name := Object("team-a", "lost")
	kubectl(t, i, "patch", "modelservice", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	kubectl(t, i, "delete", "modelservice", name)
	creditedOnce(t, i, a, "lost", 4)
}

// An object that claims a reservation which does not exist is reported, and
// left alone: the ledger may be the one that is wrong.
func TestOrphan(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "pattern")
	a.Submit("pattern", 1, engine())
	a.Ready("pattern")
	name := Object("team-a", "ghost")
	ledger := kubectl(t, i, "get", "modelservice", Object("team-a", "pattern"), "-o", `jsonpath={.metadata.annotations.modeldock\.io/ledger}`)
	ghost := `{"apiVersion":"modeldock.io/v1alpha1","kind":"ModelService","metadata":{"name":"` + name + `","namespace":"` + i.Namespace() + `",
"annotations":{"modeldock.io/tenant":"team-a","modeldock.io/id":"ghost","modeldock.io/ledger":"` + ledger + `"}},
"spec":{"tenant":"team-a","requestID":"ghost","model":{"name":"ghost","version":"v1"},"class":"llm","workload":"online","engine":{"kind":"simulated"},
"gpu":{"memoryMiB":64,"count":1},"replicas":0,"scaling":{"min":0,"max":1},"traffic":{"weight":1},"budget":{"fundedReplicas":0}}}`
	if err := i.Ground.Cluster.Apply(t.Context(), ghost); err != nil {
		t.Fatal(err)
	}
	reported(t, i, "orphan", name)
	if left := kubectl(t, i, "get", "modelservice", name, "-o", "jsonpath={.metadata.deletionTimestamp}"); left != "" {
		t.Errorf("the orphan was deleted at %s", left)
	}
	kubectl(t, i, "delete", "modelservice", name, "--wait=false")
}

// reported waits until a controller says what differs, and of which object.
func reported(t *testing.T, i *Installation, what, object string) {
	t.Helper()
	eventually(t, walk, "the report of "+what+" "+object, func() bool {
		for _, p := range i.Controllers {
			text, err := os.ReadFile(filepath.Clean(p.LogFile()))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if contains(line, "ledger and target differ", "what="+what, object) {
					return true
				}
			}
		}
		return false
	}, func() any { return i.Controllers[0].LogTail() })
}
