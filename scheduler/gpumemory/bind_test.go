package gpumemory

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// server answers Bindings: first is what the API server does with one, second
// what reaches the scheduler.
func (b *bed) server(t *testing.T, takesEffect bool, answer error) *[]*v1.Binding {
	t.Helper()
	var seen []*v1.Binding
	b.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || create.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding, ok := create.GetObject().(*v1.Binding)
		if !ok {
			t.Errorf("a %T was bound", create.GetObject())
			return true, nil, errors.New("no binding")
		}
		seen = append(seen, binding)
		if takesEffect {
			got, err := b.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), binding.Namespace, binding.Name)
			pod, ok := got.(*v1.Pod)
			if err != nil || !ok {
				t.Errorf("bind a Pod that is not there: %v", err)
				return true, nil, answer
			}
			pod = pod.DeepCopy()
			pod.Spec.NodeName = binding.Target.Name
			for k, v := range binding.Annotations {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
			}
			if err := b.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace); err != nil {
				t.Error(err)
			}
		}
		return true, binding, answer
	})
	return &seen
}

// bind places a Pod and binds it. A failed one is taken back, as the framework does.
func (b *bed) bind(t *testing.T, p *v1.Pod) error {
	t.Helper()
	if err := b.client.Tracker().Add(p); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	n, state, status := b.cycle(t, p)
	if !status.IsSuccess() {
		return errors.New(status.Message())
	}
	if status := b.framework.RunBindPlugins(t.Context(), state, p, n); !status.IsSuccess() {
		b.framework.RunReservePluginsUnreserve(t.Context(), state, p, n)
		return status.AsError()
	}
	assumed := p.DeepCopy()
	assumed.Spec.NodeName = n
	b.pods = append(b.pods, assumed)
	return nil
}

// Node and cards are written together, under the Pod's UID.
func TestBindIsOneWrite(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000, 10000))
	seen := b.server(t, true, nil)
	p := pod("a", "6000")
	p.Annotations["scheduler.ai/gpu-count"] = "2"
	if err := b.bind(t, p); err != nil {
		t.Fatal(err)
	}
	if len(*seen) != 1 {
		t.Fatalf("%d Bindings", len(*seen))
	}
	got := (*seen)[0]
	if got.UID != "a" || got.Target.Name != "n" || got.Annotations[CardAnnotation] != "n-0,n-1" || got.Annotations[IndexAnnotation] != "0,1" || strings.Count(got.Annotations[FreeAnnotation], ",") != 1 {
		t.Errorf("the Binding is %+v", got)
	}
	for _, action := range b.client.Actions() {
		if action.GetVerb() == "patch" || action.GetVerb() == "update" {
			t.Errorf("there was another write: %v", action)
		}
	}
	// A Pod without cards is the stock binder's.
	if err := b.client.Tracker().Add(pod("plain", "")); err != nil {
		t.Fatal(err)
	}
	if status := b.framework.RunBindPlugins(t.Context(), framework.NewCycleState(), pod("plain", ""), "n"); !status.IsSuccess() || len(*seen) != 2 || (*seen)[1].Annotations != nil {
		t.Errorf("a plain Pod: %s, %d Bindings", status, len(*seen))
	}
}

// An error whose Binding took effect is a success, once the API server was asked.
func TestBindThatTookEffect(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	b.server(t, true, errors.New("unexpected EOF"))
	if err := b.bind(t, pod("a", "6000")); err != nil {
		t.Fatal(err)
	}
	if _, _, status := b.cycle(t, pod("b", "6000")); status.IsSuccess() {
		t.Error("it is not counted")
	}
	if doubts := b.ledger.inDoubt(""); len(doubts) != 0 {
		t.Errorf("in doubt: %+v", doubts)
	}
}

// A Binding that may still take effect stays counted until it cannot any more;
// its own Pod is not kept away by it and gets the same card again.
func TestBindInDoubtStaysCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	b.server(t, false, apierrors.NewTimeoutError("the request timed out", 1))
	first := pod("a", "6000")
	if err := b.bind(t, first); err == nil || !strings.Contains(err.Error(), "stay counted") {
		t.Fatalf("error %v", err)
	}
	if event := <-b.recorder.Events; !strings.Contains(event, "BindingInDoubt") {
		t.Errorf("event %q", event)
	}
	if _, _, status := b.cycle(t, pod("b", "6000")); status.IsSuccess() {
		t.Error("it is not counted")
	}
	if _, _, status := b.cycle(t, first); !status.IsSuccess() {
		t.Errorf("the Pod itself: %s", status)
	}
	b.framework.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), first, "n")
	b.resolve(t.Context())
	if len(b.ledger.inDoubt("n")) != 1 {
		t.Error("resolved although the API server may still work on it")
	}
	b.clock.add(resolveAfter)
	if status := b.filterOnly(t, pod("b", "6000")); status == nil {
		t.Error("time alone freed the card")
	}
	b.resolve(t.Context())
	if held := b.ledger.all(); len(held) != 0 {
		t.Errorf("after the API server denied it: %+v", held)
	}
	if b.wakings() != 1 {
		t.Errorf("Pods that wait were woken %d times", b.wakings())
	}
	if _, card := b.place(t, pod("b", "6000")); card != "n-0" {
		t.Errorf("then: %q", card)
	}
}

func (b *bed) filterOnly(t *testing.T, p *v1.Pod) error {
	t.Helper()
	n, state, status := b.cycle(t, p)
	if status.IsSuccess() {
		b.framework.RunReservePluginsUnreserve(t.Context(), state, p, n)
		return nil
	}
	return errors.New(status.Message())
}

func TestBindThatWasRefused(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, refusal := range map[string]error{
		"gone":      apierrors.NewNotFound(pods, "a"),
		"forbidden": apierrors.NewForbidden(pods, "a", errors.New("policy")),
		"replaced":  apierrors.NewConflict(pods, "a", errors.New("Precondition failed: UID in precondition")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, node(t, "n", 10000))
			b.server(t, false, refusal)
			first := pod("a", "6000")
			if name == "replaced" {
				again := first.DeepCopy()
				again.UID = "another"
				if err := b.client.Tracker().Add(again); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.bind(t, first); err == nil {
				t.Fatal("no error")
			}
			if held := b.ledger.all(); len(held) != 0 {
				t.Errorf("it holds %+v", held)
			}
		})
	}
}

// A refusal is about one Binding alone: what was sent before it may still take
// effect, and each Binding may for as long as the API server works on it.
func TestDoubtsLastFromTheLastBinding(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, answer := range map[string]error{
		"refused":  apierrors.NewTooManyRequests("busy", 1),
		"conflict": apierrors.NewConflict(pods, "a", errors.New("etcdserver: request timed out")),
		"unknown":  errors.New("unexpected EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, node(t, "n", 10000))
			b.server(t, false, apierrors.NewTimeoutError("the request timed out", 1))
			first := pod("a", "6000")
			if err := b.bind(t, first); err == nil {
				t.Fatal("no error")
			}
			b.clock.add(resolveAfter - 1)
			b.server(t, false, answer)
			if err := b.bind(t, first); err == nil {
				t.Fatal("no error")
			}
			b.clock.add(resolveAfter - 1)
			b.resolve(t.Context())
			if len(b.ledger.inDoubt("n")) != 1 {
				t.Fatal("the first Binding, or the second, could still take effect, but is not counted")
			}
			b.clock.add(1)
			b.resolve(t.Context())
			if held := b.ledger.all(); len(held) != 0 {
				t.Errorf("it still holds %+v", held)
			}
		})
	}
}

// While a Binding is on its way, no doubt about an earlier one is settled.
func TestBindingUnderWayIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	b.server(t, false, apierrors.NewTimeoutError("the request timed out", 1))
	first := pod("a", "6000")
	if err := b.bind(t, first); err == nil {
		t.Fatal("no error")
	}
	b.clock.add(resolveAfter)
	b.ledger.posting(first.UID, "n", true)
	b.resolve(t.Context())
	if len(b.ledger.inDoubt("n")) != 1 {
		t.Error("settled while a Binding is under way")
	}
	b.ledger.posting(first.UID, "n", false)
	old := b.ledger.inDoubt("n")[0]
	b.ledger.doubtful(first.UID, "n")
	if b.ledger.settle(&old) {
		t.Error("settled by what was read before another Binding")
	}
}

// A doubt ends with its Pod, and whoever waits for its card hears of it.
func TestDoubtEndsWithThePod(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	b.server(t, false, apierrors.NewTimeoutError("the request timed out", 1))
	b.listen(t)
	first := pod("a", "6000")
	if err := b.bind(t, first); err == nil {
		t.Fatal("no error")
	}
	if err := b.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), first.Namespace, first.Name); err != nil {
		t.Fatal(err)
	}
	b.waking(t)
	if _, card := b.place(t, pod("b", "6000")); card != "n-0" {
		t.Errorf("then: %q", card)
	}
}

// What a preemption had promised to a Pod that was bound elsewhere is for others.
func TestWhoWaitsForAPromisedPlaceIsWoken(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000), node(t, "m", 10000))
	pods := v1.SchemeGroupVersion.WithResource("pods")
	promised := pod("a", "6000")
	promised.Status.NominatedNodeName = "n"
	if err := b.client.Tracker().Add(promised); err != nil {
		t.Fatal(err)
	}
	b.listen(t)
	stays := on(promised.DeepCopy(), "n", "n-0")
	stays.Status.NominatedNodeName = ""
	if wentElsewhere(promised, stays) || wentElsewhere(stays, stays) {
		t.Error("a Pod that took its place is said to have gone elsewhere")
	}
	elsewhere := on(promised.DeepCopy(), "m", "m-0")
	elsewhere.Status.NominatedNodeName = ""
	if err := b.client.Tracker().Update(pods, elsewhere, elsewhere.Namespace); err != nil {
		t.Fatal(err)
	}
	b.waking(t)
}

// What the API server shows ends a doubt, but only after the scheduler's own
// cache has had the time to hear of it too.
func TestDoubtsEndWithTheNews(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000), node(t, "m", 10000))
	p := pod("a", "6000")
	b.ledger.put(hold{pod: p.UID, name: types.NamespacedName{Name: "a"}, node: "n", mib: 6000})
	b.ledger.put(hold{pod: p.UID, name: types.NamespacedName{Name: "a"}, node: "m", mib: 6000})
	b.ledger.doubtful(p.UID, "n")
	b.ledger.doubtful(p.UID, "m")
	b.shown(t.Context(), on(p, "m", "m-0"))
	if b.wakings() != 1 {
		t.Errorf("Pods that wait for n were woken %d times", b.wakings())
	}
	if doubts := b.ledger.inDoubt(""); len(doubts) != 1 || doubts[0].node != "m" {
		t.Fatalf("in doubt: %+v", doubts)
	}
	b.ledger.sweep()
	if len(b.ledger.inDoubt("m")) != 1 {
		t.Error("dropped at once")
	}
	b.clock.add(2 * keptAfter)
	b.ledger.sweep()
	if held := b.ledger.all(); len(held) != 0 {
		t.Errorf("left: %+v", held)
	}
}
