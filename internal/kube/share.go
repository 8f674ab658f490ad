package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unheard is how many changes wait for one who listens to a list before the
// list itself waits.
const unheard = 1000

// Shareable reports whether informers take a list and its changes from one
// stream, without which nobody can listen to a Followed.
func Shareable() bool { return clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) }

// Shared lets an informer listen to this list instead of the API server, which
// then tells this process once. The objects are the list's own and must not be
// changed. example is an empty object of their kind.
func (f *Followed[T]) Shared(example T) cache.ListerWatcher {
	return &cache.ListWatch{
		// The stream begins with everything; who lists first would miss what
		// happens until it listens.
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, fmt.Errorf("list %T: it is listened to", example)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents == nil || !*options.SendInitialEvents {
				return nil, apierrors.NewResourceExpired("begin anew: what was missed is not kept")
			}
			return f.listen(ctx, example)
		},
	}
}

// listen begins with everything there is, once that was read.
func (f *Followed[T]) listen(ctx context.Context, example T) (watch.Interface, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.read:
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	if f.ended {
		return nil, errors.New("the list is not followed any more")
	}
	if f.listeners == nil {
		f.listeners = watch.NewBroadcaster(unheard, watch.WaitIfChannelFull)
	}
	var all []watch.Event
	for _, o := range f.All() {
		all = append(all, watch.Event{Type: watch.Added, Object: o})
	}
	end, _ := example.DeepCopyObject().(client.Object)
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return f.listeners.WatchWithPrefix(append(all, watch.Event{Type: watch.Bookmark, Object: end}))
}

// tell passes on what has changed. It is called under the lock under which the
// list was changed, so that who begins to listen misses nothing and hears
// nothing twice.
func (f *Followed[T]) tell(news ...watch.Event) {
	if f.listeners == nil {
		return
	}
	for _, n := range news {
		_ = f.listeners.Action(n.Type, n.Object) // it fails after the end, which nobody needs to hear of
	}
}

// silence ends what listeners hear.
func (f *Followed[T]) silence() {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.ended = true
	if f.listeners != nil {
		f.listeners.Shutdown()
	}
}
