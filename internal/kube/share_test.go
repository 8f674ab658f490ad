package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const patience = 30 * time.Second

// list is a followed list of Pods that a test fills in the place of a reflector.
type list struct {
	*testing.T
	f *Followed[*corev1.Pod]
	recorder[*corev1.Pod]
	changes int
}

func newList(t *testing.T) *list {
	t.Helper()
	l := &list{T: t}
	l.f = Follow(Source{Index: client.Object.GetName}, func(*corev1.Pod) { l.changes++ })
	l.recorder = recorder[*corev1.Pod]{l.f.index, l.f}
	return l
}

func pod(name string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(version)}}
}

func (l *list) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// informer listens to the list; heard is what it was told.
type informer struct {
	cache.SharedIndexInformer
	heard chan string
}

func (l *list) informer(ctx context.Context) informer {
	i := informer{cache.NewSharedIndexInformer(l.f.Shared(&corev1.Pod{}), &corev1.Pod{}, 0, cache.Indexers{}), make(chan string, 10_000)}
	say := func(what string, o any) {
		p := o.(*corev1.Pod)
		i.heard <- what + " " + p.Name + "/" + p.ResourceVersion
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { say("add", o) }, UpdateFunc: func(_, o any) { say("update", o) }, DeleteFunc: func(o any) { say("delete", o) },
	})
	l.must(err)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() { defer close(done); i.RunWithContext(ctx) }()
	l.Cleanup(func() { stop(); <-done })
	return i
}

// shows waits until the informer has these Pods.
func (l *list) shows(i informer, want string) {
	l.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var all []string
		for _, o := range i.GetStore().List() {
			p := o.(*corev1.Pod)
			all = append(all, p.Name+"/"+p.ResourceVersion)
		}
		slices.Sort(all)
		if got = strings.Join(all, " "); got == want && i.HasSynced() {
			return
		}
	}
	l.Fatalf("it shows %q, not %q", got, want)
}

// An informer on a followed list begins once that was read, and hears every
// change of it, also those of a gap.
func TestInformersListen(t *testing.T) {
	t.Parallel()
	l := newList(t)
	early := l.informer(t.Context())
	if early.HasSynced() {
		t.Error("it is ready before the list was read")
	}
	l.must(l.Replace([]any{pod("a", 1), pod("b", 1), pod("c", 1)}, "1"))
	l.shows(early, "a/1 b/1 c/1")
	late := l.informer(t.Context())
	l.shows(late, "a/1 b/1 c/1")
	l.must(l.Update(pod("a", 2)))
	l.must(l.Delete(pod("b", 3)))
	l.must(l.Add(pod("d", 4)))
	for _, i := range []informer{early, late} {
		l.shows(i, "a/2 c/1 d/4")
	}
	l.must(l.Replace([]any{pod("a", 2), pod("c", 5), pod("e", 6)}, "6")) // after a gap: d is gone
	for _, i := range []informer{early, late} {
		l.shows(i, "a/2 c/5 e/6")
		heard := map[string]int{}
		for range 9 {
			select {
			case what := <-i.heard:
				heard[what]++
			case <-time.After(patience):
				t.Fatalf("it heard %v only", slices.Sorted(maps.Keys(heard)))
			}
		}
		want := []string{"add a/1", "add b/1", "add c/1", "add d/4", "add e/6", "delete b/3", "delete d/4", "update a/2", "update c/5"}
		if got := slices.Sorted(maps.Keys(heard)); !slices.Equal(got, want) {
			t.Errorf("it heard %v, not %v", got, want)
		}
	}
	if l.changes != 9 {
		t.Errorf("%d changes of the list were told", l.changes)
	}
}

// Nothing is missed between what there is and what happens next, however many
// begin to listen meanwhile, and who ends keeps nobody.
func TestListenersMissNothing(t *testing.T) {
	t.Parallel()
	l := newList(t)
	l.must(l.Replace(nil, "0"))
	const last = 3 * unheard
	begin := make(chan struct{})
	go func() {
		for v := 1; v <= last; v++ {
			if v == unheard/2 {
				close(begin)
			}
			name := fmt.Sprint("p-", v%7)
			if err := l.Update(pod(name, v)); err != nil {
				t.Error(err)
			}
			if v%7 == 6 && v+7 <= last {
				if err := l.Delete(pod(name, v)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	<-begin
	gone, leave := context.WithCancel(t.Context())
	ends := l.informer(gone)
	var all []informer
	for range 5 {
		all = append(all, l.informer(t.Context()))
	}
	leave()
	var want []string
	for v := last - 6; v <= last; v++ {
		want = append(want, fmt.Sprintf("p-%d/%d", v%7, v))
	}
	slices.Sort(want)
	for _, i := range all {
		l.shows(i, strings.Join(want, " "))
	}
	_ = ends
}

// Listeners of a list that is not followed any more are told of its end.
func TestListeningEnds(t *testing.T) {
	t.Parallel()
	l := newList(t)
	l.must(l.Replace([]any{pod("a", 1)}, "1"))
	w, err := l.f.listen(t.Context(), &corev1.Pod{})
	l.must(err)
	l.f.silence()
	for range 3 { // the Pod, the end of what there is, and the end
		select {
		case _, more := <-w.ResultChan():
			if !more {
				if _, err := l.f.listen(t.Context(), &corev1.Pod{}); err == nil {
					t.Error("somebody listens after the end")
				}
				w.Stop()
				l.must(l.Update(pod("a", 2))) // which keeps nobody
				return
			}
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
	}
	t.Fatal("it goes on")
}
