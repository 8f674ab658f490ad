package gpumemory

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
)

const stateKey fwk.StateKey = Name

// wanted is what a scheduling cycle knows of its Pod.
type wanted struct {
	request placement.Request
	sizes   *placement.Sizes // as they were when the cycle began
	nodes   int
	doubted bool // a Binding of this very Pod may have taken effect somewhere
}

// Clone implements fwk.StateData: nothing changes it.
func (w *wanted) Clone() fwk.StateData { return w }

// asks tells whether a Pod is one for this plugin.
func asks(pod *v1.Pod) bool {
	_, asked, _ := placement.FromAnnotations(pod.Annotations)
	return asked
}

// PreFilter reads what the Pod asks for, once and strictly.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	request, asked, err := placement.FromAnnotations(pod.Annotations)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "invalid GPU request: "+err.Error())
	}
	if !asked {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	sizes, err := p.saw(string(pod.UID), request)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "invalid GPU request: "+err.Error())
	}
	state.Write(stateKey, &wanted{request: request, sizes: sizes, nodes: len(nodes), doubted: p.ledger.doubted(pod.UID)})
	return nil, nil
}

// saw remembers the size and returns the distribution of those seen lately.
func (p *Plugin) saw(owner string, r placement.Request) (*placement.Sizes, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.recent.Saw(owner, r); err != nil {
		return nil, err
	}
	return p.recent.Sizes(), nil
}

// PreFilterExtensions is nil: everything is computed from the NodeInfo.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func read(state fwk.CycleState) (*wanted, error) {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil, fmt.Errorf("read what the Pod asks for: %w", err)
	}
	w, ok := data.(*wanted)
	if !ok {
		return nil, fmt.Errorf("the cycle's state under %s is a %T", stateKey, data)
	}
	return w, nil
}

// SignPod lets Pods that ask for the same share the framework's results.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	request, asked, err := placement.FromAnnotations(pod.Annotations)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "invalid GPU request: "+err.Error())
	}
	if !asked {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: "modeldock.io/gpuMemoryRequest()", Value: [4]any{request.MiB, request.Cards, request.Class, request.Workload}}}, nil
}
