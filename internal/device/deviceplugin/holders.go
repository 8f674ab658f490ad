package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/device"
)

// mostAnswer is more than a kubelet says of all its Pods.
const mostAnswer = 16 << 20

// holder is a Pod with chunks.
type holder struct {
	pod   types.NamespacedName
	ids   []string // sorted
	cards []string // by uuid; none: not known, or none was decided for it
}

// lost is how many of its chunks are those of cards that are sick or gone: each
// of its cards has as many.
func (h *holder) lost(cards []device.Card) int {
	n := 0
	for _, uuid := range h.cards {
		if !slices.ContainsFunc(cards, func(c device.Card) bool { return c.UUID == uuid && c.Healthy }) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return len(h.ids) * n / len(h.cards)
}

// reader finds out who holds chunks: which ones says the kubelet, and on which
// cards the decision on the Pod, which the API server is asked for once.
type reader struct {
	socket   string // of the kubelet's PodResources
	resource string
	node     string
	client   kubernetes.Interface

	mu    sync.Mutex
	known map[types.NamespacedName]holder
	given int // how often chunks were
}

// errNotAdmitted: another Pod of this name may be what the kubelet speaks of.
var errNotAdmitted = errors.New("the kubelet has not reported it as started on this node")

// read returns all holders. unsure says why the cards of some are not known.
func (r *reader) read(ctx context.Context) (all []holder, unsure, err error) {
	all, err = r.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	before, given := maps.Clone(r.known), r.given
	r.mu.Unlock()
	next := map[types.NamespacedName]holder{}
	var failed []error
	for i := range all {
		h := &all[i]
		if was, there := before[h.pod]; there && slices.Equal(was.ids, h.ids) {
			h.cards = was.cards
		} else if h.cards, err = r.decided(ctx, h.pod); err != nil {
			failed = append(failed, fmt.Errorf("read the cards of Pod %s: %w", h.pod, err))
			continue
		}
		next[h.pod] = *h
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given != given { // some of them may be others by now
		clear(next)
	}
	r.known = next
	return all, errors.Join(failed...), nil
}

// list asks the kubelet. A connection of its own for each question is cheap on
// a node, and needs no care when the kubelet starts anew.
func (r *reader) list(ctx context.Context) ([]holder, error) {
	conn, err := grpc.NewClient("unix://"+r.socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostAnswer)))
	if err != nil {
		return nil, fmt.Errorf("reach the kubelet's PodResources: %w", err)
	}
	defer func() { _ = conn.Close() }() // what counts has been answered
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet at %s who holds %s: %w", r.socket, r.resource, err)
	}
	var all []holder
	for _, p := range answer.GetPodResources() {
		h := holder{pod: types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}}
		for _, c := range p.GetContainers() {
			for _, d := range c.GetDevices() {
				if d.GetResourceName() == r.resource {
					h.ids = append(h.ids, d.GetDeviceIds()...)
				}
			}
		}
		if len(h.ids) > 0 {
			slices.Sort(h.ids)
			all = append(all, h)
		}
	}
	return all, nil
}

// decided asks the API server for the cards of a Pod.
func (r *reader) decided(ctx context.Context, name types.NamespacedName) ([]string, error) {
	pod, err := r.client.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName != r.node || pod.Status.StartTime == nil {
		return nil, errNotAdmitted
	}
	if text := pod.Annotations[v1alpha1.AnnotationCard]; text != "" {
		return strings.Split(text, ","), nil
	}
	return nil, nil
}

// forget says that chunks are given anew: who held them before holds them no more.
func (r *reader) forget(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given++
	for name, h := range r.known {
		if slices.ContainsFunc(h.ids, func(id string) bool { return slices.Contains(ids, id) }) {
			delete(r.known, name)
		}
	}
}
