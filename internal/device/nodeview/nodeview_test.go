package nodeview

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/device/measured"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

const patience = 45 * time.Second

type bundle struct {
	*Cluster
	client.Client
	t *testing.T
}

// plain is a client of an API server that cannot stream its lists, as the fake
// one cannot: a watch that asks for that is refused instead of silent. It counts
// the watches that were opened: what happened before, the fake one never tells.
type plain struct {
	client.WithWatch
	opened *atomic.Int32
}

func (c plain) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	var all client.ListOptions
	if all.ApplyOptions(opts); all.Raw != nil && all.Raw.SendInitialEvents != nil {
		return nil, errors.New("lists are not streamed here")
	}
	w, err := c.WithWatch.Watch(ctx, list, opts...)
	if err == nil {
		c.opened.Add(1)
	}
	return w, err
}

// setup follows a cluster that has these objects.
func setup(t *testing.T, measure func(string) (measured.Card, bool), objects ...client.Object) bundle {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	b := bundle{t: t, Client: c, Cluster: New(Config{
		Client: plain{c, &opened}, Claims: true, Measured: measure, Reserve: placement.DefaultReserve(), Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	b.eventually("everything is listed and watched", func() bool { _, err := b.Nodes(); return err == nil && opened.Load() >= 3 })
	return b
}

func (b bundle) eventually(what string, is func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("it never came that %s; the nodes are %+v, %v", what, b.nodes.All(), b.current())
		}
	}
}

func (b bundle) named(name string) Node {
	b.t.Helper()
	nodes, err := b.Nodes()
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		b.t.Fatalf("there is no node %s", name)
	}
	return nodes[i]
}

func nodeWith(t *testing.T, name string, cards ...nodecards.Card) *corev1.Node {
	t.Helper()
	text, err := nodecards.Encode(cards)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{nodecards.Annotation: text}}}
}

func simulated(uuid string, index int) nodecards.Card {
	return nodecards.Card{UUID: uuid, Index: index, Model: "simulated", TotalMiB: 24576, Healthy: true, Isolation: nodecards.IsolationNone, Simulated: true}
}

func pod(name, node, mib, card string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{
		v1alpha1.AnnotationTenant: "team-a", v1alpha1.AnnotationID: name,
	}}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if mib != "" {
		p.Annotations[placement.MemoryAnnotation] = mib
	}
	if card != "" {
		p.Annotations[v1alpha1.AnnotationCard] = card
	}
	return p
}

func claim(name, node, device, memory string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: name, UID: types.UID("claim-" + name), Annotations: map[string]string{
		v1alpha1.AnnotationTenant: "team-b", v1alpha1.AnnotationID: name,
	}}}
	result := resourceapi.DeviceRequestAllocationResult{Request: "cards", Driver: v1alpha1.DRADriver, Pool: node, Device: device}
	if memory != "" {
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID("uid-" + name)}}
	return c
}

// room is what a card of 24 576 MiB has for models.
const room = 24576 - 738

func TestNodesShowWhoHoldsWhat(t *testing.T) {
	t.Parallel()
	sick := simulated("SIM-C", 2)
	sick.Healthy = false
	done := pod("done", "gpu", "9000", "SIM-B")
	done.Status.Phase = corev1.PodSucceeded
	b := setup(t, nil,
		nodeWith(t, "gpu", simulated("SIM-A", 0), simulated("SIM-B", 1), sick), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		pod("one", "gpu", "10000", "SIM-A"), pod("two", "gpu", "9000", "SIM-A,SIM-B"), done, pod("waits", "", "9000", ""), pod("web", "gpu", "", ""),
		claim("three", "gpu", "sim-b", "1000Mi"), claim("elsewhere", "other", "sim-b", "5000Mi"),
	)
	n := b.named("gpu")
	if len(n.Cards) != 3 || !n.Simulated() || b.named("plain").Simulated() || n.LargestFragmentMiB != room-10000 {
		t.Fatalf("%+v", n)
	}
	if c := n.Cards[0]; c.AllocatedMiB != 19000 || c.FreeMiB != room-19000 || c.ReservedMiB != 738 || len(c.Allocations) != 2 || c.Measured {
		t.Errorf("the first card: %+v", c)
	}
	c := n.Cards[1]
	if c.AllocatedMiB != 10000 || len(c.Allocations) != 2 || !slices.Contains(c.Allocations, Allocation{UID: "uid-three", Namespace: "models", Tenant: "team-b", ID: "three", MiB: 1000}) {
		t.Errorf("the second card: %+v", c)
	}
	if c := n.Cards[2]; c.FreeMiB != 0 || c.Healthy {
		t.Errorf("the sick card: %+v", c)
	}
	if reason := b.Shortfall(placement.Request{MiB: 15000, Cards: 1}); !strings.HasPrefix(reason, fmt.Sprintf("largest fragment %d MiB < 15000 MiB on node gpu", room-10000)) {
		t.Errorf("it does not fit because %q", reason)
	}
	if reason := b.Shortfall(placement.Request{MiB: 8000, Cards: 1}); reason != "" {
		t.Errorf("it fits, and %q is said", reason)
	}
	if b.Fits(placement.Request{MiB: 15000, Cards: 1}) || !b.Fits(placement.Request{MiB: 8000, Cards: 1}) {
		t.Error("what fits is not what is told")
	}
	// What ends gives its card back.
	if err := b.Delete(t.Context(), pod("one", "", "", "")); err != nil {
		t.Fatal(err)
	}
	b.eventually("the first Pod holds nothing", func() bool { return b.named("gpu").Cards[0].AllocatedMiB == 9000 })
}

// What the scheduler would not trust is counted as the scheduler counts it.
func TestPodsPastTheSchedulerCount(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nodeWith(t, "gpu", simulated("SIM-A", 0), simulated("SIM-B", 1)),
		pod("past", "gpu", "4000", ""), pod("unreadable", "gpu", "4Gi", "SIM-B"))
	n := b.named("gpu")
	if n.Cards[0].AllocatedMiB != 4000 || n.Cards[1].AllocatedMiB != 4000+24576 || n.Cards[1].FreeMiB != 0 {
		t.Errorf("%+v", n.Cards)
	}
}

// What keeps room for a pool is told from models.
func TestBuffersAreKnown(t *testing.T) {
	t.Parallel()
	buffer := pod("room", "gpu", "4000", "SIM-A")
	buffer.Annotations[v1alpha1.AnnotationBuffer] = "default/llm"
	b := setup(t, nil, nodeWith(t, "gpu", simulated("SIM-A", 0)), buffer, pod("one", "gpu", "1000", "SIM-A"))
	got := map[string]string{}
	for _, a := range b.named("gpu").Cards[0].Allocations {
		got[a.UID] = a.Buffer
	}
	if len(got) != 2 || got["uid-room"] != "default/llm" || got["uid-one"] != "" {
		t.Errorf("who keeps room: %v", got)
	}
}

func TestCardsOfAPod(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nodeWith(t, "gpu", simulated("SIM-A", 0), simulated("SIM-B", 1)), claim("c", "gpu", "sim-b", "1000Mi"), claim("whole", "gpu", "sim-a", ""))
	decided := pod("one", "gpu", "10000", "SIM-B,GONE")
	got := b.Of(decided)
	if len(got) != 2 || got[0].UUID != "SIM-B" || got[0].Index != 1 || got[0].MiB != 10000 || !got[0].Simulated || got[1].UUID != "GONE" || got[1].Index != -1 || got[1].Simulated {
		t.Errorf("by its annotation: %+v", got)
	}
	claiming := pod("two", "gpu", "", "")
	name, whole := "c", "whole"
	claiming.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "cards", ResourceClaimName: &name}, {Name: "other"}}
	if got := b.Of(claiming); len(got) != 1 || got[0].UUID != "SIM-B" || got[0].MiB != 1000 {
		t.Errorf("by its claim: %+v", got)
	}
	claiming.Status.ResourceClaimStatuses[0].ResourceClaimName = &whole
	if got := b.Of(claiming); len(got) != 1 || got[0].UUID != "SIM-A" || got[0].MiB != room {
		t.Errorf("by a claim of a whole card: %+v", got)
	}
	claiming.Spec.NodeName = ""
	if got := b.Of(claiming); len(got) != 0 {
		t.Errorf("a Pod without a node: %+v", got)
	}
}

// Memory that is in use and nobody's counts as taken while it is known.
func TestMeasuredMemoryOfNobodyCounts(t *testing.T) {
	t.Parallel()
	ages := make(chan time.Duration, 1)
	ages <- time.Second
	b := setup(t, func(uuid string) (measured.Card, bool) {
		age := <-ages
		ages <- age
		return measured.Card{Node: "gpu", UsedMiB: 15000, Age: age}, uuid == "SIM-A"
	}, nodeWith(t, "gpu", simulated("SIM-A", 0)), pod("one", "gpu", "10000", "SIM-A"))
	card := func() Card { return b.named("gpu").Cards[0] }
	b.eventually("the accounts of a sample's moment are known", func() bool { return card().UnaccountedMiB > 0 })
	if c := card(); !c.Measured || c.UsedMiB != 15000 || c.UnaccountedMiB != 15000-10000-738 || c.FreeMiB != room-10000-c.UnaccountedMiB {
		t.Errorf("%+v", c)
	}
	<-ages
	ages <- time.Minute
	if c := card(); !c.Measured || c.Age != time.Minute || c.UnaccountedMiB != 0 || c.FreeMiB != room-10000 {
		t.Errorf("with an old sample: %+v", c)
	}
}
