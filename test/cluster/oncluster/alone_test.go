//go:build cluster

package oncluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/scenario"
)

// What these tests do to the cluster, everybody on it would feel: they run
// alone, before all that are parallel.

// Pods that no node takes are named once the scheduler had its time.
func TestNoNodeTakesIt(t *testing.T) {
	i, a, _ := together(t)
	node := i.Ground.Cluster.Nodes()[0].Name
	kubectl(t, i, "cordon", node)
	defer kubectl(t, i, "uncordon", node)
	releasedAtEnd(t, a, "nowhere")
	a.Submit("nowhere", 1, engine())
	scenario.Eventually(t, "the scheduler to be waited for", func() bool { return a.Get("nowhere").Reason == "WaitingForNode" }, func() any { return a.Get("nowhere") })
	i.wantExit(t, "team-a", "nowhere", exitPending, "WaitingForNode", "unschedulable")
	i.Broken(t, a, "team-a", "nowhere", link{"placed", "WaitingForNode", []string{"0/1 nodes are available", "unschedulable"}, "free a node or add one"})
	kubectl(t, i, "uncordon", node)
	a.Ready("nowhere")
}

// While the API server is away, what it would have to be asked is unknown and
// never ok; traffic goes on; what was submitted meanwhile is delivered later.
func TestAPIServerAway(t *testing.T) {
	i, a, _ := together(t)
	releasedAtEnd(t, a, "steady", "later")
	a.Submit("steady", 1, engine())
	a.Ready("steady")
	a.MustChat("steady")
	if err := i.Ground.Cluster.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	started := false
	start := func() {
		if !started {
			started = true
			if err := i.Ground.Cluster.StartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer start()
	var e scenario.Evidence
	scenario.Eventually(t, "the steps of the cluster to be unknown", func() bool {
		e = a.Explain("steady")
		status, _ := e.Step(t, "started")
		return status == "unknown"
	}, func() any { return e })
	for _, step := range []string{"children", "placed", "device", "started"} {
		if status, _ := e.Step(t, step); status != "unknown" {
			t.Errorf("the API server is away and step %s is %s", step, status)
		}
	}
	if !strings.Contains(e.Message, "the API server cannot be read") {
		t.Errorf("the message: %s", e.Message)
	}
	i.wantExit(t, "team-a", "steady", exitPending, "Unreadable", "the API server cannot be read")
	a.MustChat("steady")
	a.Submit("later", 1, engine())
	time.Sleep(15 * time.Second) // the fault itself: longer than the operator's Lease lasts
	a.MustChat("steady")
	i.Broken(t, a, "team-a", "later", link{"delivered", "Undelivered", []string{"connection refused"}, "goes on by itself"})
	if r := a.Get("later"); r.Held != 1 || r.State != "reserved" {
		t.Errorf("what cannot be delivered: %+v", r)
	}
	start()
	eventually(t, 2*scenario.Patience, "delivery to go on", func() bool { return a.Get("later").ReadyReplicas == 1 }, func() any { return a.Explain("later") })
	if j := strings.Join(a.Journal("later"), ", "); j != "reserve 1" {
		t.Errorf("journal: %s", j)
	}
	// C071: what happens to endpoints is seen again, once the cluster's own
	// controllers have taken up their watches, which takes them up to a minute.
	endpoint := func() any {
		_, facts := a.Explain("steady").Step(t, "routable")
		return facts["endpointUid"]
	}
	pod := i.Pods(t, "team-a", "steady")[0]
	kubectl(t, i, "delete", "pod", pod.Name, "--wait=false")
	eventually(t, 4*scenario.Patience, "another Pod to be routable", func() bool {
		return endpoint() != nil && endpoint() != string(pod.UID)
	}, func() any { return a.Explain("steady") })
	a.MustChat("steady")
	scenario.Eventually(t, "what was unknown to be known again", func() bool {
		_, code := i.Explain(t, "team-a", "steady")
		return code == exitOK
	}, func() any { return a.Explain("steady") })
}

// A node that lost its power keeps the slots of its Pods: explain names Pod and
// node, and an admin's forced release credits once, with an audit entry.
func TestReleaseBlocked(t *testing.T) {
	i, a, admin := together(t)
	node := i.Ground.Cluster.Nodes()[0]
	a.Submit("stuck", 5, engine())
	a.Ready("stuck")
	pod := i.Pods(t, "team-a", "stuck")[0]
	node.PowerOff()
	off := true
	on := func() {
		if off {
			off = false
			if err := node.PowerOn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer on()
	// C041: what ran there is not ready any more, once the node's lease is over.
	eventually(t, 3*time.Minute, "nothing to be ready", func() bool { return a.Get("stuck").ReadyReplicas == 0 }, func() any { return a.Get("stuck") })
	a.Release("stuck")
	eventually(t, 2*time.Minute, "the release to be seen as blocked", func() bool {
		if r := a.Get("stuck"); r.State != "reserved" || r.Held != 5 {
			t.Fatalf("credited although the Pod is not seen to be gone: %+v", r)
		}
		return a.Get("stuck").Reason == "ReleaseBlocked"
	}, func() any { return a.Get("stuck") })
	i.Broken(t, a, "team-a", "stuck", link{"gone", "ReleaseBlocked", []string{pod.Name, node.Name, "--force"}, "look at the node"})

	a.Must(403, http.MethodPost, "/requests/stuck/release?force=true", map[string]any{"why": "I want to"})
	for range 2 {
		admin.Must(202, http.MethodPost, "/requests/stuck/release?force=true&tenant=team-a", map[string]any{"why": "the node burnt down"})
	}
	if r := a.Get("stuck"); r.State != "released" || r.Held != 0 {
		t.Errorf("after the forced release: %+v", r)
	}
	if j := strings.Join(a.Journal("stuck"), ", "); j != "reserve 5, release -5" {
		t.Errorf("journal: %s", j)
	}
	scenario.VerifyClean(t, i) // what is used is what is held
	export := string(admin.Must(200, http.MethodGet, "/ledger/export", nil).Body)
	if !strings.Contains(export, "the node burnt down") {
		t.Error("the ledger's audit does not say why the release was forced")
	}
	e := a.Explain("stuck")
	if _, facts := e.Step(t, "credited"); facts["forced"] != true {
		t.Errorf("explain does not say that the credit was forced: %v", facts)
	}
	on()
	eventually(t, 3*time.Minute, "the last of it to go with the node back", func() bool {
		out, err := i.Kubectl(t.Context(), "get", "modelservice,deployment,pods", "-l", "modeldock.io/modelservice="+Object("team-a", "stuck"), "-o", "name")
		return err == nil && strings.TrimSpace(out) == ""
	}, func() any { return kubectl(t, i, "get", "modelservice,deployment,pods", "-o", "wide") })
	scenario.VerifyClean(t, i)
}
