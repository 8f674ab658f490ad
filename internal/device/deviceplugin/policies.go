package deviceplugin

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// chunkVariable is where the policy of the API server that asks for chunks says
// how large one is.
const chunkVariable = "gpuMemoryChunkMiB"

// DisagreeError says that Pods ask for chunks of another size than a node has.
type DisagreeError struct {
	Policy     string
	Theirs     string // the policy's size
	OursMiB    int64
	unreadable bool
}

func (e *DisagreeError) Error() string {
	const next = "give both the same: gpu.chunkMiB of the chart sets agents, controllers and policies; without the chart, --chunk-mib of every agent and " + chunkVariable + " of the policy"
	if e.unreadable {
		return fmt.Sprintf("the policy %s of the API server says that %s is %s, which is no number of MiB: %s", e.Policy, chunkVariable, e.Theirs, next)
	}
	return fmt.Sprintf("this agent counts GPU memory in chunks of %d MiB, and the policy %s of the API server lets Pods ask for it in chunks of %s MiB, so that a Pod would be counted as larger or smaller than it is: %s", e.OursMiB, e.Policy, e.Theirs, next)
}

// Agree returns an *DisagreeError if a policy of the API server asks for chunks of
// another size than ours. Where it knows no such policies, everything agrees.
func Agree(ctx context.Context, client kubernetes.Interface, chunkMiB int64) error {
	policies, err := client.AdmissionregistrationV1().MutatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // a Kubernetes that has none
	}
	if err != nil {
		return fmt.Errorf("read by which size of chunks the API server asks for GPU memory: %w", err)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		for _, v := range p.Spec.Variables {
			if v.Name != chunkVariable {
				continue
			}
			theirs, err := strconv.ParseInt(v.Expression, 10, 64)
			if err != nil || theirs != chunkMiB {
				return &DisagreeError{Policy: p.Name, Theirs: v.Expression, OursMiB: chunkMiB, unreadable: err != nil}
			}
		}
	}
	return nil
}
