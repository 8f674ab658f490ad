//go:build cluster

package oncluster

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/scenario"
)

// Without a live key of its owner and without a grant nobody may call a model.
func TestNobodyIsPermitted(t *testing.T) {
	t.Parallel()
	i := ground.Install(t, Caps{})
	b, admin := scenario.As(t, i, "team-b"), scenario.As(t, i, "admin")
	b.Submit("lonely", 1, engine())
	b.Ready("lonely")
	keys, _ := admin.Must(200, "GET", "/keys", nil).JSON(t)["items"].([]any)
	for _, k := range keys {
		key, _ := k.(map[string]any)
		if key["tenant"] == "team-b" {
			admin.Must(204, http.MethodDelete, "/keys/"+key["id"].(string), nil)
		}
	}
	// Where the machine is busy the replica may miss a health check in between.
	says := func(what string, want int, texts ...string) {
		t.Helper()
		var out string
		var code int
		scenario.Eventually(t, what, func() bool {
			out, code = i.Explain(t, "admin", "lonely", "--tenant", "team-b")
			return code == want && contains(out, texts...)
		}, func() any { return out })
	}
	says("that nobody may call it", exitBroken, "broken at permitted: NoLiveKey", "next: create a key")
	admin.Must(200, "PUT", "/grants/team-b/lonely/team-a", nil)
	says("that the grantee may", exitPending)
	a := scenario.As(t, i, "team-a")
	scenario.Eventually(t, "the grantee to be answered", func() bool { return a.Chat(context.Background(), "lonely", nil, nil).Done }, func() any { return "no answer" })
}

// The Pod dies before its first word: the answer is lost, and explain says so.
func TestUpstreamCut(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "cut")
	a.Submit("cut", 1, engine("--ttft=40s"))
	a.Ready("cut")
	answer := make(chan scenario.Stream, 1)
	go func() { answer <- a.Chat(context.Background(), "cut", nil, nil) }()
	running(t, i, a, "cut", 1)
	now := int64(0)
	pod := i.Pods(t, "team-a", "cut")[0]
	if err := i.Client.CoreV1().Pods(i.Namespace()).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if s := <-answer; s.Done || s.Chunks > 0 {
		t.Fatalf("the Pod was killed and the caller got %+v", s)
	}
	want := link{"firstChunk", "upstream_cut", []string{"first content chunk"}, "modeldock logs cut"}
	e := a.Explain("cut")
	scenario.Eventually(t, "the lost answer to be explained", func() bool {
		e = a.Explain("cut")
		return e.BrokenAt != nil && *e.BrokenAt == want.step
	}, func() any { return e })
	if e.Reason != "upstream_cut" && e.Reason != "upstream_error" {
		t.Errorf("the reason is %s", e.Reason)
	}
	want.reason = e.Reason
	i.Broken(t, a, "team-a", "cut", want)
}

// A caller who leaves before the first chunk is named as such.
func TestClientLeft(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "left")
	a.Submit("left", 1, engine("--ttft=40s"))
	a.Ready("left")
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() { defer close(gone); a.Chat(ctx, "left", nil, nil) }()
	running(t, i, a, "left", 1)
	leave()
	<-gone
	i.Broken(t, a, "team-a", "left", link{"firstChunk", "client_cancelled", []string{"first content chunk"}, "modeldock chat"})
	running(t, i, a, "left", 0) // the engine itself has stopped
}
