//go:build cluster

package oncluster

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/scenario"
)

// together returns the installation that tests share, and its callers.
func together(t *testing.T) (i *Installation, a, admin scenario.Caller) {
	t.Helper()
	i, err := common()
	if err != nil {
		t.Fatal(err)
	}
	return i, scenario.As(t, i, "team-a"), scenario.As(t, i, "admin")
}

// releasedAtEnd asks for the end of what a test made, without waiting for it.
func releasedAtEnd(t *testing.T, c scenario.Caller, ids ...string) {
	t.Cleanup(func() {
		for _, id := range ids {
			c.Do(http.MethodPost, "/requests/"+id+"/release", nil)
		}
	})
}

// Every row of the table of evidence is true, by the objects that the cluster
// itself shows.
func TestEveryLinkHolds(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "whole")
	a.Submit("whole", 1, engine())
	r := a.Ready("whole")
	s := a.MustChat("whole")
	scenario.Eventually(t, "three yes", func() bool {
		e := a.Explain("whole")
		return e.Answers.FirstChunkDelivered != nil && *e.Answers.FirstChunkDelivered
	}, func() any { return a.Explain("whole") })
	e := a.Explain("whole")
	pods := i.Pods(t, "team-a", "whole")
	if len(pods) != 1 {
		t.Fatalf("%d Pods", len(pods))
	}
	pod := pods[0]
	deployment, err := i.Client.AppsV1().Deployments(i.Namespace()).Get(t.Context(), Object("team-a", "whole"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{
		"submitted":  {"submits": 1.0},
		"reserved":   {"debits": 1.0, "slots": 1.0},
		"delivered":  {"uid": r.Object.UID, "name": Object("team-a", "whole")},
		"children":   {"deploymentUid": string(deployment.UID), "ownerUid": r.Object.UID, "replicaSetUid": string(metav1.GetControllerOf(&pod).UID), "wanted": 1.0},
		"placed":     {"replicaUid": string(pod.UID), "node": pod.Spec.NodeName, "cards": "untracked"},
		"device":     {"cards": "untracked"},
		"started":    {"replicaUid": string(pod.UID), "engineReports": "whole (owned by modeldock-simulated)", "restarts": 0.0},
		"routable":   {"endpointUid": string(pod.UID), "endpoints": 1.0},
		"permitted":  {"owner": "team-a"},
		"firstChunk": {"requestId": s.RequestID, "endpointUid": string(pod.UID)},
	}
	for step, facts := range want {
		status, found := e.Step(t, step)
		if status != "ok" {
			t.Errorf("step %s is %s", step, status)
		}
		for fact, value := range facts {
			if found[fact] != value {
				t.Errorf("step %s: %s is %v, want %v", step, fact, found[fact], value)
			}
		}
	}
	i.wantExit(t, "team-a", "whole", exitOK, "did the model really start? yes", "cards=untracked")

	a.Release("whole")
	a.Released("whole")
	e = a.Explain("whole")
	for _, step := range []string{"children", "placed", "device", "started", "routable", "firstChunk", "deleting", "gone", "credited"} {
		if status, _ := e.Step(t, step); status != "ok" {
			t.Errorf("after the release step %s is %s: %+v", step, status, e)
		}
	}
	if _, found := e.Step(t, "placed"); found["replicaUid"] != string(pod.UID) || found["node"] != pod.Spec.NodeName {
		t.Errorf("after the release the place is not proven any more: %v", found)
	}
}

func TestQuotaAndPoolBlocked(t *testing.T) {
	t.Parallel()
	i, _, admin := together(t)
	b := scenario.As(t, i, "team-b")
	admin.Must(200, "PUT", "/tenants/team-b/quota", map[string]any{"cap": 1})
	releasedAtEnd(t, b, "pays", "waits")
	b.Submit("pays", 1, engine())
	b.Ready("pays")
	b.Submit("waits", 1, engine())
	i.Broken(t, b, "team-b", "waits", link{"reserved", "QuotaBlocked", []string{"team-b holds 1 of 1 slots", "needs 1"}, "quota set"})

	admin.Must(200, "PUT", "/pools/tiny", map[string]any{"cap": 1})
	admin.Must(200, "PUT", "/tenants/team-a/pools", map[string]any{"allow": []string{"default", "tiny"}})
	a := scenario.As(t, i, "team-a")
	releasedAtEnd(t, a, "in-tiny", "beside-tiny")
	tiny := engine()
	tiny["pool"] = "tiny"
	a.Submit("in-tiny", 1, tiny)
	a.Ready("in-tiny")
	a.Submit("beside-tiny", 1, tiny)
	i.Broken(t, a, "team-a", "beside-tiny", link{"reserved", "PoolBlocked", []string{"tiny", "1 of 1"}, "pool set"})
	if n := i.Engines(t, "team-a", "beside-tiny") + i.Engines(t, "team-b", "waits"); n != 0 {
		t.Errorf("what is blocked has %d Pods", n)
	}
}

// A foreign ModelService of the name (C032) stays as it is; once it is gone,
// delivery goes on by itself.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	name := Object("team-a", "taken")
	foreign := `{"apiVersion":"modeldock.io/v1alpha1","kind":"ModelService","metadata":{"name":"` + name + `","namespace":"` + i.Namespace() + `","labels":{"mine":"yes"}},
"spec":{"tenant":"somebody","requestID":"else","model":{"name":"theirs","version":"v1"},"class":"llm","workload":"online","engine":{"kind":"simulated"},
"gpu":{"memoryMiB":64,"count":1},"replicas":0,"scaling":{"min":0,"max":1},"traffic":{"weight":1},"budget":{"fundedReplicas":0}}}`
	if err := i.Ground.Cluster.Apply(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		out, err := i.Kubectl(t.Context(), "get", "modelservice", name, "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion} {.spec} {.metadata.labels} {.metadata.ownerReferences} {.metadata.annotations}")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := look()
	releasedAtEnd(t, a, "taken")
	a.Submit("taken", 1, engine())
	i.Broken(t, a, "team-a", "taken", link{"delivered", "NameTaken", []string{name, "left untouched"}, "foreign object"})
	if r := a.Get("taken"); r.Reason != "NameTaken" || r.Object.UID != "" || r.Held != 1 {
		t.Errorf("the record: %+v", r)
	}
	if after := look(); after != before {
		t.Errorf("the foreign object was\n%s\nand is\n%s", before, after)
	}
	if _, err := i.Kubectl(t.Context(), "delete", "modelservice", name); err != nil {
		t.Fatal(err)
	}
	a.Ready("taken")
	if j := strings.Join(a.Journal("taken"), ", "); j != "reserve 1" {
		t.Errorf("journal: %s", j)
	}
}

// A foreign Deployment of the child's name (C037) stays byte for byte, over a
// release too.
func TestOwnershipConflict(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	name := Object("team-a", "conflict")
	if _, err := i.Kubectl(t.Context(), "create", "deployment", name, "--image=nobody.test/none:1", "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		d, err := i.Client.AppsV1().Deployments(i.Namespace()).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := i.Kubectl(t.Context(), "get", "deployment", name, "-o", "jsonpath={.metadata.generation} {.metadata.labels} {.metadata.ownerReferences} {.spec}")
		if err != nil {
			t.Fatal(err)
		}
		return string(d.UID) + " " + text
	}
	before := look()
	a.Submit("conflict", 1, engine())
	i.Broken(t, a, "team-a", "conflict", link{"children", "OwnershipConflict", []string{"Deployment", name}, "foreign object"})
	a.Release("conflict")
	a.Released("conflict")
	if after := look(); after != before {
		t.Errorf("the foreign Deployment was\n%s\nand is\n%s", before, after)
	}

	name = Object("team-a", "conflict-ends")
	if _, err := i.Kubectl(t.Context(), "create", "deployment", name, "--image=nobody.test/none:1", "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	releasedAtEnd(t, a, "conflict-ends")
	a.Submit("conflict-ends", 1, engine())
	i.Broken(t, a, "team-a", "conflict-ends", link{"children", "OwnershipConflict", []string{name}, "foreign object"})
	if _, err := i.Kubectl(t.Context(), "delete", "deployment", name); err != nil {
		t.Fatal(err)
	}
	a.Ready("conflict-ends")
}

// A quota of the namespace that refuses Pods is named, and lifted it is over.
func TestReplicaFailure(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{})
	a := scenario.As(t, i, "team-a")
	if _, err := i.Kubectl(t.Context(), "create", "quota", "nothing", "--hard=pods=0"); err != nil {
		t.Fatal(err)
	}
	scenario.Eventually(t, "the namespace's quota to be in force", func() bool {
		out, err := i.Kubectl(t.Context(), "get", "quota", "nothing", "-o", "jsonpath={.status.hard.pods}")
		return err == nil && out == "0"
	}, func() any { return "no status" })
	a.Submit("refused", 1, engine())
	i.Broken(t, a, "team-a", "refused", link{"children", "ReplicaFailure", []string{"exceeded quota: nothing", "pods=0"}, "quota, limits or policies"})
	if _, err := i.Kubectl(t.Context(), "delete", "quota", "nothing"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*scenario.Patience, "the model to start once Pods are allowed", func() bool { return a.Get("refused").ReadyReplicas == 1 }, func() any { return a.Get("refused") })
}

func TestImagePullFailed(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "no-image")
	body := engine()
	body["model"].(map[string]any)["image"] = "127.0.0.1:1/absent/engine:1"
	a.Submit("no-image", 1, body)
	i.Broken(t, a, "team-a", "no-image", link{"started", "ImagePullFailed", []string{"127.0.0.1:1/absent/engine:1"}, "image"})
}

func TestModelLoadFailed(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "corrupt")
	a.Submit("corrupt", 1, engine("--fail-load=weights are corrupt at byte 17"))
	e := i.Broken(t, a, "team-a", "corrupt", link{"started", "ModelLoadFailed", []string{"weights are corrupt at byte 17"}, "modeldock logs corrupt"})
	if status, _ := e.Step(t, "placed"); status != "ok" {
		t.Errorf("it was placed, and the step is %s", status)
	}
	if _, facts := e.Step(t, "started"); facts["exitCode"] != 1.0 {
		t.Errorf("the facts: %v", facts)
	}
}

// A model that was ready and keeps crashing is no model that failed to load.
func TestCrashLooping(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "crashes")
	a.Submit("crashes", 1, engine("--crash-after=1"))
	uid := a.Ready("crashes").Object.UID
	eventually(t, 4*scenario.Patience, "the model to crash at every call, until its node lets it wait", func() bool {
		e := a.Explain("crashes")
		if e.Reason == "CrashLooping" {
			return true
		}
		brief, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		a.Chat(brief, "crashes", nil, nil)
		return false
	}, func() any { return a.Explain("crashes") })
	i.Broken(t, a, "team-a", "crashes", link{"started", "CrashLooping", []string{"engine answers its health check"}, "modeldock logs crashes"})
	if e := a.Explain("crashes"); e.Answers.ModelStarted == nil || !*e.Answers.ModelStarted || a.Get("crashes").Object.UID != uid {
		t.Errorf("it did start: %+v", e.Answers)
	}
}

// An engine that hangs is taken off the route, and explain says that it was
// ready and is not.
func TestFellSilent(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "silent")
	a.Submit("silent", 1, engine("--hang-after=4s"))
	a.Ready("silent")
	i.Broken(t, a, "team-a", "silent", link{"routable", "NotReady", []string{"of 1 replicas, 1 do not answer"}, "modeldock logs silent"})
	if r := a.Get("silent"); r.ReadyReplicas != 0 {
		t.Errorf("the record still counts it: %+v", r)
	}
}
