package gpumemory

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"modeldock.io/internal/device/measured"
	"modeldock.io/internal/device/measured/redismeasured"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/traffic/redislink"
)

// Args are the plugin's in a scheduler's configuration. Without a Redis,
// accounts alone count.
type Args struct {
	Redis        string `json:"redis"`        // HOST:PORT where agents publish the memory in use
	RedisURLFile string `json:"redisURLFile"` // or a file with its whole URL, which may be secret
}

func argsOf(raw runtime.Object) (Args, error) {
	var a Args
	if raw == nil {
		return a, nil
	}
	if err := frameworkruntime.DecodeInto(raw, &a); err != nil {
		return a, fmt.Errorf("read the plugin's args: %w", err)
	}
	if a.Redis != "" && a.RedisURLFile != "" {
		return a, fmt.Errorf("read the plugin's args: name Redis by redis or by redisURLFile, not by both")
	}
	if a.RedisURLFile != "" {
		text, err := os.ReadFile(a.RedisURLFile)
		if err != nil {
			return a, fmt.Errorf("read the plugin's args: %w", err)
		}
		a.Redis = strings.TrimSpace(string(text))
	}
	return a, nil
}

// measure follows what agents publish at a Redis, until ctx ends.
func (p *Plugin) measure(ctx context.Context, address string, registry prometheus.Registerer) error {
	options, err := redislink.Parse(address)
	if err != nil {
		return err
	}
	log := slog.New(logr.ToSlogHandler(klog.FromContext(ctx)))
	view, err := redismeasured.NewView(redismeasured.ViewConfig{Redis: options, Clock: p.now, Logger: log, Registerer: registry})
	if err != nil {
		return err
	}
	s := newSamples()
	p.measured = s
	go view.Run(ctx)
	go func() {
		tick := time.NewTicker(redismeasured.ReadEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p.renew(ctx, s, view)
		}
	}()
	return nil
}

// measurements is what is measured of cards; see redismeasured.View.
type measurements interface {
	All() map[string]measured.Card
	Fresh(uuid string) (measured.Card, bool)
}

// renew takes over what was measured since, and wakes Pods that it may have
// made room for.
func (p *Plugin) renew(ctx context.Context, s *samples, from measurements) {
	now := p.now()
	allocated, err := p.allocated()
	if err != nil {
		klog.FromContext(ctx).Error(err, "What was measured is not taken over")
		return
	}
	fresh, known := map[string]measured.Card{}, from.All()
	for uuid := range known {
		if card, is := from.Fresh(uuid); is {
			fresh[uuid] = card
		}
	}
	for _, uuid := range p.views.uuids() {
		if _, is := known[uuid]; !is {
			from.Fresh(uuid) // counted as absent
		}
	}
	if s.take(now, fresh, allocated) {
		p.wake(klog.FromContext(ctx))
	}
}

// allocated sums up what Pods have of each card, those too whose Binding is
// under way.
func (p *Plugin) allocated() (map[string]int64, error) {
	pods, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	sum, shown := map[string]int64{}, map[string]bool{}
	for _, pod := range pods {
		decided := pod.Annotations[CardAnnotation]
		if decided == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		request, _, err := placement.FromAnnotations(pod.Annotations)
		if err != nil {
			continue // it counts as the largest card; nothing measured is beyond that
		}
		shown[string(pod.UID)] = true
		for _, uuid := range strings.Split(decided, ",") {
			sum[uuid] += request.MiB
		}
	}
	for _, h := range p.ledger.all() {
		if !shown[string(h.pod)] && h.expiry.IsZero() { // what has an end was shown, and may be gone
			for _, c := range h.cards {
				sum[c.UUID] += h.mib
			}
		}
	}
	return sum, nil
}

// samples is the latest of every node, with the accounts of its moment. It
// implements Measured.
type samples struct {
	mu       sync.RWMutex
	accounts measured.Accounts
	nodes    map[string]*nodeSamples
}

type nodeSamples struct {
	cards   map[string]placement.Sample
	version uint64
}

func newSamples() *samples { return &samples{nodes: map[string]*nodeSamples{}} }

// Node implements Measured.
func (s *samples) Node(name string) (map[string]placement.Sample, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.nodes[name]; n != nil {
		return n.cards, n.version
	}
	return nil, 0
}

// take replaces everything by what is fresh now, and reports whether less
// memory is in use without having been given than before.
func (s *samples) take(now time.Time, fresh map[string]measured.Card, allocated map[string]int64) (less bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts.Note(now, allocated)
	next := map[string]map[string]placement.Sample{}
	for uuid, card := range fresh {
		at := now.Add(-card.Age)
		held, _ := s.accounts.Since(uuid, at)
		if next[card.Node] == nil {
			next[card.Node] = map[string]placement.Sample{}
		}
		next[card.Node][uuid] = placement.Sample{UsedMiB: card.UsedMiB, AllocatedMiB: held, At: at}
	}
	for name := range next {
		if s.nodes[name] == nil {
			s.nodes[name] = &nodeSamples{}
		}
	}
	for name, n := range s.nodes {
		if !maps.EqualFunc(n.cards, next[name], sameFigures) {
			n.version++
			less = less || frees(n.cards, next[name])
		}
		n.cards = next[name] // younger, also where the figures are the same
	}
	return less
}

func sameFigures(a, b placement.Sample) bool {
	return a.UsedMiB == b.UsedMiB && a.AllocatedMiB == b.AllocatedMiB
}

func frees(before, after map[string]placement.Sample) bool {
	for uuid, b := range before {
		a := after[uuid]
		if max(0, a.UsedMiB-a.AllocatedMiB) < max(0, b.UsedMiB-b.AllocatedMiB) {
			return true
		}
	}
	return false
}
