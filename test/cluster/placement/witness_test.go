//go:build cluster

package placement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	sampleEvery   = 500 * time.Millisecond
	fewObjections = 20 // of which a failed test tells
)

// witness follows all Pods on the API server itself, not through the proxy.
// Its watch sees each state that ever was, in order; besides, it lists all Pods
// again and again, so that a watch that left something out would be noticed.
type witness struct {
	client *kubernetes.Clientset

	mu        sync.Mutex
	accounts  *accounts
	undecided map[types.UID]bool // neither bound nor said not to fit
	bound     map[types.UID]bool // ever
	states    int
	samples   int
}

// newWitness begins before there is any Pod, and ends with the test.
func newWitness(t *testing.T, b *bundle, empty *accounts) *witness {
	t.Helper()
	w := &witness{client: b.client, accounts: empty.empty(), undecided: map[types.UID]bool{}, bound: map[types.UID]bool{}}
	list, err := b.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 0 {
		t.Fatalf("there are %d Pods already", len(list.Items))
	}
	var both sync.WaitGroup
	both.Go(func() { w.follow(t, list.ResourceVersion) })
	both.Go(func() { w.sample(t) })
	t.Cleanup(both.Wait) // the test's context ended before
	return w
}

func (w *witness) follow(t *testing.T, version string) {
	ctx := t.Context()
	for ctx.Err() == nil {
		watcher, err := w.client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			if ctx.Err() == nil {
				t.Logf("the witness watches again: %v", err)
			}
			continue
		}
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				if ctx.Err() != nil {
					return
				}
				t.Errorf("the witness lost its watch at version %s: %v", version, event.Object)
				return
			}
			version = pod.ResourceVersion
			if event.Type != watch.Bookmark {
				w.see(pod, event.Type == watch.Deleted)
			}
		}
	}
}

func (w *witness) see(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states++
	w.accounts.see(pod, gone)
	if pod.Spec.NodeName != "" {
		w.bound[pod.UID] = true
	}
	if gone || !waits(pod) || unschedulable(pod) != "" {
		delete(w.undecided, pod.UID)
	} else {
		w.undecided[pod.UID] = true
	}
}

func (w *witness) sample(t *testing.T) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.Context().Done():
			return
		case <-ticker.C:
		}
		sum, _, err := w.count(t.Context())
		switch {
		case t.Context().Err() != nil:
			return
		case err != nil:
			t.Logf("no sample was taken: %v", err)
			continue
		}
		w.mu.Lock()
		w.samples++
		w.accounts.wrong = append(w.accounts.wrong, sum.wrong...)
		w.mu.Unlock()
	}
}

// count lists all Pods as they are at one instant and adds them up.
func (w *witness) count(ctx context.Context) (*accounts, []corev1.Pod, error) {
	list, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list Pods: %w", err)
	}
	sum := w.accounts.empty()
	for i := range list.Items {
		sum.see(&list.Items[i], false)
	}
	return sum, list.Items, nil
}

// agrees tells whether the watch has come to what a list says.
func (w *witness) agrees(sum *accounts) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range sum.room {
		if w.accounts.used[at] != sum.used[at] {
			return fmt.Errorf("on %s the watch has seen %d MiB and the list %d", at.card, w.accounts.used[at], sum.used[at])
		}
	}
	return nil
}

// objections are what must never have been.
func (w *witness) objections() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []error
	for _, text := range w.accounts.wrong {
		if all = append(all, errors.New(text)); len(all) == fewObjections {
			break
		}
	}
	return errors.Join(all...)
}

// waiting is how many Pods the scheduler has said nothing of.
func (w *witness) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.undecided)
}

// String tells how much was seen.
func (w *witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d Pods were ever bound, %d states and %d samples seen", len(w.bound), w.states, w.samples)
}
