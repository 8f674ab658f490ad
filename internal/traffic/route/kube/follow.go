package kube

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/traffic"
)

// Config is what a follower needs.
type Config struct {
	REST      *rest.Config
	Namespace string       // empty: all
	Ledger    string       // only endpoints of this ledger's objects; empty: any
	Logger    *slog.Logger // nil: slog.Default
	// OnChange gets every routable endpoint, whenever that list changes, one
	// call at a time. It is called first when everything was read once.
	OnChange func([]traffic.Endpoint)
}

// Follower follows Services and their EndpointSlices. While the API server is
// away, the endpoints stay as they were.
type Follower struct {
	cfg      Config
	services *kube.Followed[*corev1.Service]
	slices   *kube.Followed[*discoveryv1.EndpointSlice]
	dirty    chan struct{}

	mu   sync.Mutex
	told []traffic.Endpoint // nil before the first call
}

// longestBreath bounds the pause after a look at everything that there is.
const longestBreath = 200 * time.Millisecond

// New prepares a follower; the API server need not be there yet.
func New(cfg Config) (*Follower, error) {
	if cfg.REST == nil || cfg.OnChange == nil {
		return nil, errors.New("follow the endpoints: it needs the API server's address and somebody to tell")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c, err := kube.NewClient(cfg.REST, "modeldock-gateway")
	if err != nil {
		return nil, err
	}
	f := &Follower{cfg: cfg, dirty: make(chan struct{}, 1)}
	source := kube.Source{
		Client: c, Namespace: cfg.Namespace, Label: v1alpha1.LabelModelService, Index: client.Object.GetName,
		Logger: cfg.Logger, Listed: f.mark,
	}
	source.NewList = func() client.ObjectList { return &corev1.ServiceList{} }
	f.services = kube.Follow(source, func(*corev1.Service) { f.mark() })
	source.NewList = func() client.ObjectList { return &discoveryv1.EndpointSliceList{} }
	f.slices = kube.Follow(source, func(*discoveryv1.EndpointSlice) { f.mark() })
	return f, nil
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { f.services.Run(ctx, &corev1.Service{}) })
	both.Go(func() { f.slices.Run(ctx, &discoveryv1.EndpointSlice{}) })
	for {
		select {
		case <-ctx.Done():
			both.Wait()
			return
		case <-f.dirty:
			began := time.Now()
			f.rebuild()
			// While much changes, this takes a tenth of the time at most.
			select {
			case <-ctx.Done():
			case <-time.After(min(9*time.Since(began), longestBreath)):
			}
		}
	}
}

// Current is nil while the endpoints are what the API server has.
func (f *Follower) Current() error { return errors.Join(f.services.Current(), f.slices.Current()) }

func (f *Follower) mark() {
	select {
	case f.dirty <- struct{}{}:
	default: // a rebuild is due already, and sees this change too
	}
}

// rebuild merges everything anew. Half of what there is would empty the table,
// so nothing is told before both lists were read.
func (f *Follower) rebuild() {
	if !f.services.Synced() || !f.slices.Synced() {
		return
	}
	list := Merge(f.cfg.Ledger, f.services.All(), f.slices.All())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told != nil && slices.Equal(f.told, list) {
		return
	}
	f.told = list
	f.cfg.OnChange(slices.Clone(list))
}
