package kube

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The pauses between attempts to reach the API server: what changed while it
// was away is known a few seconds after it is back.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 4 * time.Second
)

// Source says which objects are followed.
type Source struct {
	Client    client.WithWatch
	Namespace string                     // empty: all
	Label     string                     // only objects that have this label; empty: all
	Index     func(client.Object) string // what By finds by
	NewList   func() client.ObjectList
	Slim      func(client.Object) // drops what is never read of an object; may be nil
	Logger    *slog.Logger
	Listed    func() // after every whole list, also an empty one; may be nil
}

// Followed is a list of objects that is kept up to date by a watch, and by a
// new list after every gap. Its objects are shared and must not be changed.
type Followed[T client.Object] struct {
	source  Source
	changed func(T)
	index   cache.Indexer
	read    chan struct{} // closed when the list was read once

	mu  sync.Mutex
	ear ear

	telling   sync.Mutex // held while the list changes
	listeners *watch.Broadcaster
	ended     bool
}

const byIndex = "by"

// Follow prepares a list; Run keeps it. changed is called for every object
// that was added, changed or deleted, after the list has it so, one at a time.
func Follow[T client.Object](s Source, changed func(T)) *Followed[T] {
	f := &Followed[T]{source: s, changed: changed, read: make(chan struct{})}
	f.index = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byIndex: func(obj any) ([]string, error) {
		return []string{s.Index(obj.(T))}, nil
	}})
	return f
}

// Run follows until ctx ends.
func (f *Followed[T]) Run(ctx context.Context, example T) {
	defer f.silence()
	logger := logr.FromSlogHandler(f.source.Logger.Handler())
	cache.NewReflectorWithOptions(f.listWatch(), example, recorder[T]{f.index, f}, cache.ReflectorOptions{
		Logger: &logger, Name: fmt.Sprintf("%T", example),
		Backoff: &wait.Backoff{Duration: firstPause, Cap: lastPause, Steps: 16, Factor: 2, Jitter: 0.5},
	}).RunWithContext(ctx)
}

// Current is nil while the list is what the API server has, a moment ago. An
// error says since when nothing is heard, and why; the list is then as it was.
func (f *Followed[T]) Current() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, why := f.ear.deaf(time.Now())
	switch {
	case !f.Synced() && why != nil:
		return fmt.Errorf("the list of %T cannot be read: %w", *new(T), why)
	case !f.Synced():
		return fmt.Errorf("the list of %T has not been read yet", *new(T))
	case why != nil:
		return fmt.Errorf("nothing is heard of %T since %s: %w", *new(T), since.UTC().Format(time.RFC3339), why)
	}
	return nil
}

// Synced reports whether the list was ever read.
func (f *Followed[T]) Synced() bool {
	select {
	case <-f.read:
		return true
	default:
		return false
	}
}

// All lists every object.
func (f *Followed[T]) All() []T { return typed[T](f.index.List()) }

// Get returns the object of a namespace and name.
func (f *Followed[T]) Get(namespace, name string) (obj T, exists bool) {
	got, exists, _ := f.index.GetByKey(namespace + "/" + name)
	if exists {
		obj = got.(T)
	}
	return obj, exists
}

// By lists the objects that Source.Index gives this value.
func (f *Followed[T]) By(value string) []T {
	objs, _ := f.index.ByIndex(byIndex, value)
	return typed[T](objs)
}

func typed[T any](objs []any) []T {
	out := make([]T, len(objs))
	for i, o := range objs {
		out[i] = o.(T)
	}
	return out
}

// listWatch asks through the client and notes how that went.
func (f *Followed[T]) listWatch() *cache.ListWatch {
	options := func(raw metav1.ListOptions) []client.ListOption {
		opts := []client.ListOption{&client.ListOptions{Namespace: f.source.Namespace, Raw: &raw}}
		if f.source.Label != "" {
			opts = append(opts, client.HasLabels{f.source.Label})
		}
		return opts
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := f.source.NewList()
			err := f.source.Client.List(ctx, list, options(raw)...)
			if err != nil {
				f.hear(func(now time.Time) { f.ear.fail(now, err) })
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			w, err := f.source.Client.Watch(ctx, f.source.NewList(), options(raw)...)
			if err != nil {
				f.hear(func(now time.Time) { f.ear.fail(now, err) })
				return nil, err
			}
			f.hear(f.ear.open)
			return f.relay(w), nil
		},
	}
}

func (f *Followed[T]) hear(what func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what(time.Now())
}

// relay passes a watch's events on, and notes that there are some, and its end.
func (f *Followed[T]) relay(w watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer w.Stop()
		defer f.hear(func(now time.Time) { f.ear.fail(now, errWatchEnded) })
		for {
			select {
			case <-out.StopChan():
				return
			case event, more := <-w.ResultChan():
				if !more {
					return
				}
				f.hear(f.ear.event)
				select {
				case <-out.StopChan():
					return
				case events <- event:
				}
			}
		}
	}()
	return out
}

// recorder is the store as the reflector fills it.
type recorder[T client.Object] struct {
	cache.Indexer
	f *Followed[T]
}

func (r recorder[T]) Add(obj any) error    { return r.keep(watch.Added, r.Indexer.Add, obj) }
func (r recorder[T]) Update(obj any) error { return r.keep(watch.Modified, r.Indexer.Update, obj) }
func (r recorder[T]) Delete(obj any) error { return r.keep(watch.Deleted, r.Indexer.Delete, obj) }

func (r recorder[T]) keep(what watch.EventType, how func(any) error, obj any) error {
	r.f.slim(obj)
	if err := r.f.change(func() ([]watch.Event, error) { return []watch.Event{{Type: what, Object: obj.(T)}}, how(obj) }); err != nil {
		return err
	}
	r.f.changed(obj.(T))
	return nil
}

// change changes the list and tells listeners what that was.
func (f *Followed[T]) change(how func() ([]watch.Event, error)) error {
	f.telling.Lock()
	defer f.telling.Unlock()
	news, err := how()
	if err == nil {
		f.tell(news...)
	}
	return err
}

// Replace takes a whole list, and tells of what differs from the one before.
func (r recorder[T]) Replace(objs []any, version string) error {
	for _, o := range objs {
		r.f.slim(o)
	}
	var news []watch.Event
	err := r.f.change(func() ([]watch.Event, error) {
		news = differences(r.f.All(), typed[T](objs))
		return news, r.Indexer.Replace(objs, version)
	})
	if err != nil {
		return err
	}
	if !r.f.Synced() {
		close(r.f.read)
	}
	for _, n := range news {
		r.f.changed(n.Object.(T))
	}
	if r.f.source.Listed != nil {
		r.f.source.Listed()
	}
	return nil
}

// differences are what has happened between two lists.
func differences[T client.Object](before, after []T) []watch.Event {
	old := make(map[client.ObjectKey]T, len(before))
	for _, o := range before {
		old[client.ObjectKeyFromObject(o)] = o
	}
	var news []watch.Event
	for _, o := range after {
		key := client.ObjectKeyFromObject(o)
		was, there := old[key]
		switch {
		case !there:
			news = append(news, watch.Event{Type: watch.Added, Object: o})
		case was.GetUID() != o.GetUID() || was.GetResourceVersion() != o.GetResourceVersion():
			news = append(news, watch.Event{Type: watch.Modified, Object: o})
		}
		delete(old, key)
	}
	for _, o := range old {
		news = append(news, watch.Event{Type: watch.Deleted, Object: o})
	}
	return news
}

// slim drops what nobody reads and what takes most of the room.
func (f *Followed[T]) slim(obj any) {
	o, ok := obj.(client.Object)
	if !ok {
		return
	}
	o.SetManagedFields(nil)
	if f.source.Slim != nil {
		f.source.Slim(o)
	}
}
