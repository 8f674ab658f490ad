//go:build cluster

package oncluster

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/scenario"
)

// C041: Ready comes from replicas that answer. It falls, with a reason, when
// the image of a model that runs is broken, when nothing of it is wanted on the
// Deployment, and when its Pods are gone; it never counts more than the
// Deployment does, and comes back by itself. (A node that is gone is
// TestReleaseBlocked's, an engine that is silent TestFellSilent's.)
func TestReadyComesFromReplicas(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "honest")
	a.Submit("honest", 1, engine("--load-time=6s")) // it is seen to load, however slow the machine is
	a.Ready("honest")
	name := Object("team-a", "honest")
	ready := func() string {
		return kubectl(t, i, "get", "modelservice", name, "-o", `jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.reason} {.message}{end}`)
	}
	falls := func(why, reason string) {
		t.Helper()
		eventually(t, scenario.Patience, "Ready to fall: "+why, func() bool {
			return strings.HasPrefix(ready(), "False "+reason) && a.Get("honest").ReadyReplicas == 0
		}, func() any { return ready() + fmt.Sprintf(" %+v", a.Get("honest")) })
		if n := kubectl(t, i, "get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}"); n != "" && n != "0" {
			t.Errorf("%s: the ModelService counts no ready replica, its Deployment %s", why, n)
		}
	}
	rises := func(after string) {
		t.Helper()
		eventually(t, 2*scenario.Patience, "Ready to come back after: "+after, func() bool {
			return strings.HasPrefix(ready(), "True") && a.Get("honest").ReadyReplicas == 1
		}, func() any { return ready() + fmt.Sprintf(" %+v", a.Get("honest")) })
		a.MustChat("honest")
	}

	// 1. A rollout to an image that is nowhere. Without a spare card the old
	// replica ends first.
	kubectl(t, i, "patch", "modelservice", name, "--type=merge", "-p", `{"spec":{"engine":{"image":"nobody.test/none:1"}}}`)
	falls("an image that is nowhere", "ImagePullFailed")
	kubectl(t, i, "patch", "modelservice", name, "--type=json", "-p", `[{"op":"remove","path":"/spec/engine/image"}]`)
	rises("a good image")

	// 2. Nobody's Pods: the Deployment is put back, and Ready says the truth
	// meanwhile, however short that is.
	pod := i.Pods(t, "team-a", "honest")[0]
	kubectl(t, i, "scale", "deployment", name, "--replicas=0")
	scenario.Eventually(t, "another Pod", func() bool {
		pods := i.Pods(t, "team-a", "honest")
		return len(pods) == 1 && pods[0].UID != pod.UID
	}, func() any { return ready() })
	rises("a Deployment of none")

	// 3. A Pod that is killed.
	pod = i.Pods(t, "team-a", "honest")[0]
	kubectl(t, i, "delete", "pod", pod.Name, "--grace-period=0", "--force")
	falls("a Pod that was killed", "")
	rises("another Pod")
}

// C068 on a cluster: copies of one address in several slices are one replica,
// which takes requests as long as one copy says that it is ready.
func TestAddressInTwoSlices(t *testing.T) {
	t.Parallel()
	i, a, _ := together(t)
	releasedAtEnd(t, a, "twice")
	spec := engine("--tokens=1", "--token-time=1ms")
	spec["model"].(map[string]any)["replicas"] = map[string]any{"min": 2}
	a.Submit("twice", 1, spec)
	a.Runs("twice", 2)
	pods := i.Pods(t, "team-a", "twice")
	if len(pods) != 2 {
		t.Fatalf("%d Pods", len(pods))
	}
	// shares sends 200 requests and wants each replica to take about a half.
	shares := func(when string) {
		t.Helper()
		var before, took [2]float64
		for n := range pods {
			before[n] = served(t, pods[n].Status.PodIP)
		}
		for range 200 {
			if answer := a.Ask("twice", nil); answer.Status != 200 {
				t.Fatalf("%s: status %d: %s", when, answer.Status, answer.Body)
			}
		}
		for n := range pods {
			took[n] = served(t, pods[n].Status.PodIP) - before[n]
		}
		if took[0]+took[1] != 200 || took[0] < 70 || took[1] < 70 {
			t.Errorf("%s: the replicas took %v and %v of 200 requests", when, took[0], took[1])
		}
	}
	shares("before")
	name := Object("team-a", "twice")
	for _, isReady := range []bool{false, true} {
		port := pods[0].Spec.Containers[0].Ports[0]
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-copy-%t", name, isReady), Labels: map[string]string{
				discoveryv1.LabelServiceName: name, "modeldock.io/modelservice": name, discoveryv1.LabelManagedBy: "somebody-else",
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &port.Name, Port: &port.ContainerPort, Protocol: &port.Protocol}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{pods[0].Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady, Serving: &isReady}}},
		}
		if _, err := i.Client.DiscoveryV1().EndpointSlices(i.Namespace()).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		shares(fmt.Sprintf("with another copy, ready=%t", isReady))
		if err := i.Client.DiscoveryV1().EndpointSlices(i.Namespace()).Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		shares(fmt.Sprintf("after a copy with ready=%t was deleted", isReady))
	}
}
