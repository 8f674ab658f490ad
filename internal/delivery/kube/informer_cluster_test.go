//go:build cluster

package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

// An operator's informers of what delivery follows ask the API server nothing,
// and have what delivery has, also after a gap.
func TestInformersShareTheWatch(t *testing.T) {
	t.Parallel()
	b, p := setupBehind(t)
	first, second := b.apply(desired(b, "first")), desired(b, "second")
	gone := b.pod(first, "gone")
	services, pods := b.informer(&v1alpha1.ModelService{}), b.informer(&corev1.Pod{})
	b.holds(services, first.Name)
	b.holds(pods, "gone")
	b.apply(second)
	b.holds(services, first.Name, second.Name)
	p.Cut()
	b.end(gone)
	b.pod(first, "later")
	force(b, first.Name)
	p.Mend()
	b.holds(services, second.Name)
	b.holds(pods, "later")
}

// informer is one that could not reach the API server itself.
func (b *bench) informer(kind runtime.Object) cache.SharedIndexInformer {
	b.Helper()
	i := b.target.Informer(nil, kind, 0, cache.Indexers{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); i.RunWithContext(ctx) }()
	b.Cleanup(func() { stop(); <-done })
	return i
}

func (b *bench) holds(i cache.SharedIndexInformer, want ...string) {
	b.Helper()
	slices.Sort(want)
	b.eventually("the informer has "+strings.Join(want, " "), func() error {
		var got []string
		for _, o := range i.GetStore().List() {
			got = append(got, o.(client.Object).GetName())
		}
		if slices.Sort(got); !slices.Equal(got, want) || !i.HasSynced() {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}
