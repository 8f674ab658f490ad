package gpumemory

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// The framework counts in metrics that its program registers.
func TestMain(m *testing.M) {
	metrics.Register()
	os.Exit(m.Run())
}

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// bed is the plugin in a real framework, over a snapshot that the test makes.
type bed struct {
	*Plugin
	framework framework.Framework
	client    *fake.Clientset
	clock     *clock
	nodes     []*v1.Node
	pods      []*v1.Pod // on nodes: bound or assumed
	infos     fwk.NodeInfoLister
	recorder  *events.FakeRecorder

	hearing sync.Mutex
	woken   []map[string]*v1.Pod
}

func setup(t *testing.T, nodes ...*v1.Node) *bed {
	t.Helper()
	b := &bed{client: fake.NewClientset(), clock: &clock{now: time.Unix(1_700_000_000, 0)}, nodes: nodes, recorder: events.NewFakeRecorder(100)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	factory := func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		b.Plugin = newPlugin(h, nil, b.clock.Now)
		return b.Plugin, nil
	}
	f, err := st.NewFramework(ctx, []st.RegisterPluginFunc{
		st.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		st.RegisterPluginAsExtensions(Name, factory, "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Bind"),
		st.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
	}, "test",
		frameworkruntime.WithClientSet(b.client), frameworkruntime.WithEventRecorder(b.recorder),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(b.client, 0)),
		frameworkruntime.WithPodActivator(b), frameworkruntime.WithSnapshotSharedLister(b))
	if err != nil {
		t.Fatal(err)
	}
	b.framework = f
	b.refresh()
	return b
}

// Activate is the queue's: it hears which Pods are to be tried again.
func (b *bed) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	b.woken = append(b.woken, pods)
}

func (b *bed) wakings() int { b.hearing.Lock(); defer b.hearing.Unlock(); return len(b.woken) }

// listen lets the plugin hear what becomes of Pods.
func (b *bed) listen(t *testing.T) {
	t.Helper()
	if err := b.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The fake API server forgets what happens between a list and its watch.
	watched := make(chan struct{})
	once := sync.OnceFunc(func() { close(watched) })
	b.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := b.client.Tracker().Watch(v1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace())
		once()
		return true, w, err
	})
	informers := b.handle.SharedInformerFactory()
	informers.Start(t.Context().Done())
	informers.WaitForCacheSync(t.Context().Done())
	select {
	case <-watched:
	case <-time.After(30 * time.Second):
		t.Fatal("Pods are not watched")
	}
}

// waking waits until Pods that wait are woken.
func (b *bed) waking(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); b.wakings() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was woken")
		}
	}
}

// refresh makes the snapshot of a scheduling cycle.
func (b *bed) refresh() { b.infos = cache.NewSnapshot(b.pods, b.nodes).NodeInfos() }

// The bed is the snapshot that the framework reads.
func (b *bed) NodeInfos() fwk.NodeInfoLister                             { return b.infos }
func (b *bed) StorageInfos() fwk.StorageInfoLister                       { return nil }
func (b *bed) PodGroupStates() fwk.PodGroupStateLister                   { return nil }
func (b *bed) PodGroups() fwk.PodGroupLister                             { return nil }
func (b *bed) CompositePodGroupStates() fwk.CompositePodGroupStateLister { return nil }
func (b *bed) CompositePodGroups() fwk.CompositePodGroupLister           { return nil }

func (b *bed) info(t *testing.T, node string) fwk.NodeInfo {
	t.Helper()
	info, err := b.infos.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// cycle runs a scheduling cycle up to the reservation, and returns the node.
func (b *bed) cycle(t *testing.T, pod *v1.Pod) (string, fwk.CycleState, *fwk.Status) {
	t.Helper()
	ctx := t.Context()
	b.refresh()
	state := framework.NewCycleState()
	if _, status, _ := b.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return "", state, status
	}
	all, err := b.infos.List()
	if err != nil {
		t.Fatal(err)
	}
	var fit []fwk.NodeInfo
	var last *fwk.Status
	for _, info := range all {
		if status := b.framework.RunFilterPlugins(ctx, state, pod, info); status.IsSuccess() {
			fit = append(fit, info)
		} else {
			last = status
		}
	}
	if len(fit) == 0 {
		return "", state, last
	}
	if status := b.framework.RunPreScorePlugins(ctx, state, pod, fit); !status.IsSuccess() {
		return "", state, status
	}
	scores, status := b.framework.RunScorePlugins(ctx, state, pod, fit)
	if !status.IsSuccess() {
		return "", state, status
	}
	best := scores[0]
	for _, s := range scores {
		if s.TotalScore > best.TotalScore {
			best = s
		}
	}
	return best.Name, state, b.framework.RunReservePluginsReserve(ctx, state, pod, best.Name)
}

// place runs a whole cycle; the Pod is then assumed, without a decision on it.
func (b *bed) place(t *testing.T, pod *v1.Pod) (node, card string) {
	t.Helper()
	node, _, status := b.cycle(t, pod)
	if !status.IsSuccess() {
		t.Fatalf("%s: %s", pod.Name, status.Message())
	}
	h, held := b.ledger.find(pod.UID, node)
	if !held {
		t.Fatalf("%s holds nothing on %s", pod.Name, node)
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	b.pods = append(b.pods, assumed)
	return node, h.binding().Annotations[CardAnnotation]
}

// node has healthy cards of the given sizes, named NODE-0, NODE-1 …
func node(t *testing.T, name string, mib ...int64) *v1.Node {
	t.Helper()
	var cards []nodecards.Card
	for i, m := range mib {
		cards = append(cards, nodecards.Card{UUID: name + "-" + strconv.Itoa(i), Index: i, Model: "test", TotalMiB: m, Healthy: true, Isolation: nodecards.IsolationNone, Simulated: true})
	}
	text, err := nodecards.Encode(cards)
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{nodecards.Annotation: text}}}
}

// pod asks for memory; its UID is its name.
func pod(name, memory string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	if memory != "" {
		p.Annotations = map[string]string{placement.MemoryAnnotation: memory}
	}
	return p
}

// on is a Pod that is bound to a card.
func on(p *v1.Pod, node, card string) *v1.Pod {
	p.Spec.NodeName = node
	p.Annotations[CardAnnotation] = card
	return p
}
