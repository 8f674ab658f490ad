package gpumemory

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Bind writes node and cards in one Binding: the API server copies a Binding's
// annotations onto the Pod. Its UID keeps a Pod that was made anew under the
// same name from getting its predecessor's place.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if !asks(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	h, held := p.ledger.find(pod.UID, nodeName)
	if !held {
		return fwk.AsStatus(fmt.Errorf("bind to node %s: no card was reserved; %s must be enabled at reserve too", nodeName, Name))
	}
	p.ledger.posting(pod.UID, nodeName, true)
	err := p.post(ctx, h.binding())
	p.ledger.posting(pod.UID, nodeName, false)
	if err == nil {
		return nil
	}
	return p.answered(ctx, pod, h, err)
}

func (h *hold) binding() *v1.Binding {
	var indexes, free []string
	for _, c := range h.cards {
		indexes, free = append(indexes, strconv.Itoa(c.Index)), append(free, strconv.FormatInt(c.FreeMiB, 10))
	}
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.name.Namespace, Name: h.name.Name, UID: h.pod,
			Annotations: map[string]string{
				CardAnnotation: strings.Join(uuids(h.cards), ","), IndexAnnotation: strings.Join(indexes, ","), FreeAnnotation: strings.Join(free, ","),
			},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: h.node},
	}
}

// post sends the Binding the way the stock binder does, through the queue of
// calls where there is one.
func (p *Plugin) post(ctx context.Context, binding *v1.Binding) error {
	cacher := p.handle.APICacher()
	if cacher == nil {
		return p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	finished, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, finished)
}

// answered looks into what an error left behind. A Binding may have taken
// effect although its answer was lost, or may still; a conflict can be the
// answer to a repetition of one that did, or what the API server makes of a
// store that did not answer in time. Until the API server has told, the cards
// stay counted. A refusal tells nothing of the Bindings that were tried before.
func (p *Plugin) answered(ctx context.Context, pod *v1.Pod, h hold, failure error) *fwk.Status {
	if apierrors.IsNotFound(failure) || refused(failure) && h.doubt.IsZero() {
		p.ledger.certain(pod.UID, h.node)
		return fwk.AsStatus(fmt.Errorf("bind to node %s: %w", h.node, failure))
	}
	p.ledger.doubtful(pod.UID, h.node)
	switch state, err := p.look(ctx, &h); {
	case err != nil:
		failure = fmt.Errorf("%w; whether it took effect is unknown (%w), so its cards stay counted", failure, err)
	case state == boundAsDecided:
		p.ledger.certain(pod.UID, h.node)
		return nil
	case state == boundElsewhere, state == gone:
		p.ledger.certain(pod.UID, h.node)
	default:
		failure = fmt.Errorf("%w; it may still take effect, so its cards stay counted for %s", failure, resolveAfter)
	}
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "BindingInDoubt", "Binding", "Binding to node %s failed: %v", h.node, failure)
	return fwk.AsStatus(fmt.Errorf("bind to node %s: %w", h.node, failure))
}

// refused tells that nothing was written.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) || apierrors.IsMethodNotSupported(err)
}

// fate is where the API server shows a Pod.
type fate int

const (
	unbound fate = iota
	boundAsDecided
	boundElsewhere
	gone
)

// look asks the API server itself, not a cache.
func (p *Plugin) look(ctx context.Context, h *hold) (fate, error) {
	pod, err := p.handle.ClientSet().CoreV1().Pods(h.name.Namespace).Get(ctx, h.name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case err != nil:
		return unbound, fmt.Errorf("read the Pod: %w", err)
	case pod.UID != h.pod:
		return gone, nil
	case pod.Spec.NodeName == "":
		return unbound, nil
	case pod.Spec.NodeName == h.node && pod.Annotations[CardAnnotation] == strings.Join(uuids(h.cards), ","):
		return boundAsDecided, nil
	}
	return boundElsewhere, nil
}

func key(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
