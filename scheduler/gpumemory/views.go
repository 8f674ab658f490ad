package gpumemory

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// views computes what nodes have free, and keeps the results: a node is looked
// through again only when its Pods, its cards or an assumed decision changed.
type views struct {
	plugin *Plugin

	mu    sync.RWMutex
	nodes map[string]*nodeView
}

type nodeView struct {
	generation int64 // of the NodeInfo; never the same for two contents
	ledger     uint64
	measured   uint64
	until      time.Time // when the first sample becomes stale; zero: never
	raw        string    // annotation that cards were read from
	cards      []nodecards.Card
	view       *placement.View
	err        error
}

func newViews(p *Plugin) *views { return &views{plugin: p, nodes: map[string]*nodeView{}} }

// of returns the view of a node as the NodeInfo has it. It is only to be read.
// The error says why none can be made.
func (s *views) of(info fwk.NodeInfo) (*placement.View, error) {
	node := info.Node()
	if node == nil {
		return nil, fmt.Errorf("the node is gone")
	}
	ledger := s.plugin.ledger.version(node.Name) // before the ledger is read
	var samples map[string]placement.Sample
	var measured uint64
	if s.plugin.measured != nil {
		samples, measured = s.plugin.measured.Node(node.Name)
	}
	now := s.plugin.now()
	s.mu.RLock()
	old := s.nodes[node.Name]
	s.mu.RUnlock()
	if old != nil && old.generation == info.GetGeneration() && old.ledger == ledger && old.measured == measured && (old.until.IsZero() || now.Before(old.until)) {
		return old.view, old.err
	}
	fresh := &nodeView{generation: info.GetGeneration(), ledger: ledger, measured: measured, raw: node.Annotations[nodecards.Annotation]}
	if old != nil && old.raw == fresh.raw {
		fresh.cards = old.cards
	}
	if fresh.cards == nil && fresh.raw != "" {
		fresh.cards, fresh.err = nodecards.Parse(fresh.raw)
	}
	if fresh.err == nil {
		var cards []placement.Card
		cards, fresh.until, fresh.err = s.plugin.cards(fresh.cards, samples, now)
		if fresh.err == nil {
			fresh.view, fresh.err = s.plugin.count(node.Name, cards, info.GetPods())
		}
	}
	s.mu.Lock()
	s.nodes[node.Name] = fresh
	s.mu.Unlock()
	return fresh.view, fresh.err
}

// uuids are the cards of all nodes that were looked at.
func (s *views) uuids() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []string
	for _, v := range s.nodes {
		for _, c := range v.cards {
			all = append(all, c.UUID)
		}
	}
	return all
}

// cards turns what a node says of its cards, and what is measured on them, into
// the core's terms.
func (p *Plugin) cards(described []nodecards.Card, samples map[string]placement.Sample, now time.Time) ([]placement.Card, time.Time, error) {
	var until time.Time
	cards := make([]placement.Card, 0, len(described))
	for _, d := range described {
		c := placement.Card{UUID: d.UUID, Index: d.Index, Model: d.Model, TotalMiB: d.TotalMiB, ReservedMiB: p.reserve.Of(d.TotalMiB), Healthy: d.Healthy}
		if sample, known := samples[d.UUID]; known {
			var err error
			if c.UnaccountedMiB, c.Stale, err = sample.Unaccounted(c.ReservedMiB, now); err != nil {
				return nil, until, fmt.Errorf("card %s: %w", d.UUID, err)
			}
			if end := sample.At.Add(placement.MeasuredFor); !c.Stale && (until.IsZero() || end.Before(until)) {
				until = end
			}
		}
		cards = append(cards, c)
	}
	return cards, until, nil
}

// account is what one Pod counts on a node.
type account struct {
	pod     *v1.Pod
	request placement.Request
	cards   []string
}

// count makes the view of a node from its cards and Pods.
func (p *Plugin) count(node string, cards []placement.Card, pods []fwk.PodInfo) (*placement.View, error) {
	view, err := placement.NewView(placement.Node{Name: node, Cards: cards}, nil)
	if err != nil {
		return nil, err
	}
	var staying, leaving, nominated []account
	there := make(map[string]bool, len(pods))
	for _, info := range pods {
		pod := info.GetPod()
		there[string(pod.UID)] = true
		switch a, counts := p.account(pod, node, cards); {
		case !counts:
		case a.cards == nil:
			nominated = append(nominated, a)
		case pod.DeletionTimestamp != nil:
			leaving = append(leaving, a)
		default:
			staying = append(staying, a)
		}
	}
	for _, h := range p.ledger.inDoubt(node) {
		if !there[string(h.pod)] {
			staying = append(staying, account{request: placement.Request{MiB: h.mib}, cards: uuids(h.cards)})
		}
	}
	if err := take(view, staying); err != nil {
		return nil, err
	}
	if err := takeNominated(view, cards, staying, nominated); err != nil {
		return nil, err
	}
	// Those that are ending hold their cards to the last container, but whoever
	// is nominated will get what they leave: it was placed before they count.
	return view, take(view, leaving)
}

func take(view *placement.View, accounts []account) error {
	for _, a := range accounts {
		for _, card := range a.cards {
			if err := view.Take(card, a.request.MiB); err != nil {
				return err
			}
		}
	}
	return nil
}

// account says what a Pod of a NodeInfo counts there. Nil cards mean that the
// Pod is not there yet, but nominated.
func (p *Plugin) account(pod *v1.Pod, node string, cards []placement.Card) (account, bool) {
	request, asked, err := placement.FromAnnotations(pod.Annotations)
	decided := pod.Annotations[CardAnnotation]
	if !asked && decided == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return account{}, false
	}
	a := account{pod: pod, request: request}
	switch h, assumed := p.ledger.find(pod.UID, node); {
	case decided != "":
		a.cards = strings.Split(decided, ",")
	case assumed:
		a.cards, a.request.MiB = uuids(h.cards), h.mib
	case pod.Spec.NodeName == "" && err == nil:
		return a, true
	default:
		// Somebody else bound it, and nobody knows to which card: it may use any.
		a.cards = make([]string, 0, len(cards))
		for _, c := range cards {
			a.cards = append(a.cards, c.UUID)
		}
	}
	if err != nil || !asked {
		// Its size is unreadable: whole cards are counted, the largest's size each.
		a.request.MiB = 1
		for _, c := range cards {
			a.request.MiB = max(a.request.MiB, c.TotalMiB)
		}
	}
	return a, true
}

func uuids(cards []placement.Chosen) []string {
	list := make([]string, 0, len(cards))
	for _, c := range cards {
		list = append(list, c.UUID)
	}
	return list
}

// without is a view in which a Pod's own doubtful decision does not count
// against it.
func (p *Plugin) without(view *placement.View, pod *v1.Pod, info fwk.NodeInfo) (*placement.View, error) {
	h, held := p.ledger.find(pod.UID, view.Name)
	if !held || h.doubt.IsZero() {
		return view, nil
	}
	for _, other := range info.GetPods() {
		if other.GetPod().UID == pod.UID {
			return view, nil
		}
	}
	own := view.Clone()
	for _, c := range h.cards {
		if err := own.Give(c.UUID, h.mib); err != nil {
			return nil, err
		}
	}
	return own, nil
}
