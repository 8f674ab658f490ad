// Package nodeview is what the nodes of a cluster have on their cards (account
// 2), for people and for evidence: the cards that agents describe, what Pods
// and claims hold of them, and the memory in use as it is measured. Schedulers
// decide; this shows, by the same arithmetic.
package nodeview

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/device/measured"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// noteEvery is how often the accounts are noted, to compare samples with.
const noteEvery = time.Second

// Config is what a Cluster works with.
type Config struct {
	Client client.WithWatch
	Claims bool // cards come by resource claims, too
	// Measured is the latest sample of a card, whatever its age; nil: nothing is
	// measured.
	Measured func(uuid string) (measured.Card, bool)
	Reserve  placement.Reserve
	Clock    func() time.Time
	Logger   *slog.Logger
}

// Cluster follows all nodes. Safe for concurrent use.
type Cluster struct {
	cfg    Config
	nodes  *kube.Followed[*corev1.Node]
	pods   *kube.Followed[*corev1.Pod]
	claims *kube.Followed[*resourceapi.ResourceClaim] // nil without Config.Claims

	mu       sync.Mutex
	cards    map[string]described // by node
	accounts measured.Accounts
}

// New prepares it; Run follows the API server, which need not be there yet.
func New(cfg Config) *Cluster {
	c := &Cluster{cfg: cfg, cards: map[string]described{}}
	c.nodes = kube.Follow(kube.Source{
		Client: cfg.Client, Logger: cfg.Logger, Index: client.Object.GetName, Slim: slimNode,
		NewList: func() client.ObjectList { return &corev1.NodeList{} },
	}, c.forget)
	c.pods = kube.Follow(kube.Source{
		Client: cfg.Client, Logger: cfg.Logger, Index: nodeOf, Slim: slimPod,
		NewList: func() client.ObjectList { return &corev1.PodList{} },
	}, func(*corev1.Pod) {})
	if cfg.Claims {
		c.claims = kube.Follow(kube.Source{
			Client: cfg.Client, Logger: cfg.Logger, Index: poolOf, Slim: slimClaim,
			NewList: func() client.ObjectList { return &resourceapi.ResourceClaimList{} },
		}, func(*resourceapi.ResourceClaim) {})
	}
	return c
}

// Run follows nodes, Pods and claims until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.nodes.Run(ctx, &corev1.Node{}) })
	all.Go(func() { c.pods.Run(ctx, &corev1.Pod{}) })
	if c.claims != nil {
		all.Go(func() { c.claims.Run(ctx, &resourceapi.ResourceClaim{}) })
	}
	if c.cfg.Measured != nil {
		all.Go(func() { c.note(ctx) })
	}
	all.Wait()
}

// note keeps the accounts of the last seconds.
func (c *Cluster) note(ctx context.Context) {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		allocated := map[string]int64{}
		for _, node := range c.nodes.All() {
			for _, h := range c.held(node.Name, c.cardsOf(node.Name)) {
				allocated[h.card] += h.MiB
			}
		}
		c.mu.Lock()
		c.accounts.Note(c.cfg.Clock(), allocated)
		c.mu.Unlock()
	}
}

// forget drops what is known of a node that is gone.
func (c *Cluster) forget(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nodes.By(node.Name)) == 0 {
		delete(c.cards, node.Name)
	}
}

// described is what a node said of its cards when it was read last.
type described struct {
	text  string
	cards []nodecards.Card
}

// cardsOf reads what a node says of its cards, once for each change. What cannot
// be understood are no cards, as for the scheduler.
func (c *Cluster) cardsOf(name string) []nodecards.Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := c.nodes.By(name)
	if len(nodes) == 0 || nodes[0].Annotations[nodecards.Annotation] == "" {
		delete(c.cards, name)
		return nil
	}
	text := nodes[0].Annotations[nodecards.Annotation]
	if known, there := c.cards[name]; there && known.text == text {
		return known.cards
	}
	cards, err := nodecards.Parse(text)
	if err != nil {
		c.cfg.Logger.Warn("a node's cards cannot be used; its agent will describe them anew", "node", name, "error", err)
	}
	c.cards[name] = described{text, cards}
	return cards
}

// card finds a card of a node by its uuid, or by the name that it has as a
// device, which is the same in lower case.
func (c *Cluster) card(node, name string) (nodecards.Card, bool) {
	for _, card := range c.cardsOf(node) {
		if strings.EqualFold(card.UUID, name) {
			return card, true
		}
	}
	return nodecards.Card{}, false
}

func nodeOf(o client.Object) string {
	if pod, ok := o.(*corev1.Pod); ok {
		return pod.Spec.NodeName
	}
	return ""
}

// poolOf is the node of a claim's cards; empty while it has none of ours.
func poolOf(o client.Object) string {
	claim, ok := o.(*resourceapi.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return ""
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == v1alpha1.DRADriver {
			return r.Pool
		}
	}
	return ""
}

func slimNode(o client.Object) {
	if n, ok := o.(*corev1.Node); ok {
		n.Annotations = only(n.Annotations, nodecards.Annotation)
		n.Labels, n.Spec, n.Status = nil, corev1.NodeSpec{}, corev1.NodeStatus{}
	}
}

func slimPod(o client.Object) {
	if p, ok := o.(*corev1.Pod); ok {
		p.Annotations = only(p.Annotations, append(placement.RequestAnnotations(), v1alpha1.AnnotationCard, v1alpha1.AnnotationTenant, v1alpha1.AnnotationID, v1alpha1.AnnotationBuffer)...)
		p.Labels, p.Spec, p.Status = nil, corev1.PodSpec{NodeName: p.Spec.NodeName}, corev1.PodStatus{Phase: p.Status.Phase}
	}
}

func slimClaim(o client.Object) {
	if claim, ok := o.(*resourceapi.ResourceClaim); ok {
		claim.Annotations = only(claim.Annotations, v1alpha1.AnnotationTenant, v1alpha1.AnnotationID)
		claim.Labels, claim.Spec = nil, resourceapi.ResourceClaimSpec{}
	}
}

func only(all map[string]string, names ...string) map[string]string {
	var kept map[string]string
	for _, name := range names {
		if value, there := all[name]; there {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = value
		}
	}
	return kept
}
