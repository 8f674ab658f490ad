package operator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"modeldock.io/api/v1alpha1"
)

// GPUMode is how a card reaches a container.
type GPUMode string

// The modes.
const (
	// GPUNone asks for no card: any scheduler places the Pod, and nothing says
	// which card it uses. For clusters without cards.
	GPUNone GPUMode = "none"
	// GPUDevicePlugin asks the scheduler by annotation and the kubelet by a
	// resource that counts memory.
	GPUDevicePlugin GPUMode = "devicePlugin"
	// GPUDRA asks by a resource claim.
	GPUDRA GPUMode = "dra"
)

// GPU is how Pods ask for cards.
type GPU struct {
	Mode          GPUMode // empty: GPUNone
	SchedulerName string  // of Pods that ask for cards; empty: the cluster's default scheduler
	Resource      string  // with GPUDevicePlugin; default modeldock.io/gpu-memory
	ChunkMiB      int64   // with GPUDevicePlugin: what one unit of Resource stands for; default 256
	DeviceClass   string  // with GPUDRA; default gpu.modeldock.io
}

// cardVariable tells a container its card; NVIDIA's runtime reads the other.
const (
	cardVariable   = "MODELDOCK_CARD"
	nvidiaVariable = "NVIDIA_VISIBLE_DEVICES"
)

func (g GPU) withDefaults() GPU {
	if g.Mode == "" {
		g.Mode = GPUNone
	}
	if g.Resource == "" {
		g.Resource = v1alpha1.GroupName + "/gpu-memory"
	}
	if g.ChunkMiB == 0 {
		g.ChunkMiB = 256
	}
	if g.DeviceClass == "" {
		g.DeviceClass = v1alpha1.DRADriver
	}
	return g
}

func (g GPU) validate() error {
	switch {
	case !slices.Contains([]GPUMode{GPUNone, GPUDevicePlugin, GPUDRA}, g.Mode):
		return fmt.Errorf("operator: GPU mode %q is unknown; use %q, %q or %q", g.Mode, GPUNone, GPUDevicePlugin, GPUDRA)
	case g.ChunkMiB < 1:
		return fmt.Errorf("operator: GPU chunks of %d MiB are no chunks; give at least 1", g.ChunkMiB)
	}
	return nil
}

// annotations tell the scheduler what one replica needs, and what it prefers.
func (g GPU) annotations(m *v1alpha1.ModelService) map[string]string {
	if g.Mode != GPUDevicePlugin {
		return nil
	}
	need := m.Spec.GPU
	all := map[string]string{
		v1alpha1.AnnotationGPUMemory: strconv.FormatInt(need.MemoryMiB, 10),
		v1alpha1.AnnotationGPUCount:  strconv.Itoa(int(cardsOf(need))),
	}
	if m.Spec.Class != "" {
		all[v1alpha1.AnnotationGPUClass] = m.Spec.Class
	}
	if m.Spec.Workload != "" {
		all[v1alpha1.AnnotationGPUWorkload] = m.Spec.Workload
	}
	return all
}

// limits count the memory per card in whole chunks, rounded down as that of the
// cards is: rounded up, a node would be full before its cards are. Less than a
// chunk is one, since the kubelet counts no Pod that asks for none.
func (g GPU) limits(need v1alpha1.GPU) corev1.ResourceList {
	if g.Mode != GPUDevicePlugin {
		return nil
	}
	perCard := max(1, need.MemoryMiB/g.ChunkMiB)
	return corev1.ResourceList{
		corev1.ResourceName(g.Resource): *resource.NewQuantity(perCard*int64(cardsOf(need)), resource.DecimalSI),
	}
}

// env shows the container its cards and no others. The variable is always set:
// an image may bake in that it sees every card of the node.
func (g GPU) env() []*corev1ac.EnvVarApplyConfiguration {
	if g.Mode != GPUDevicePlugin {
		return []*corev1ac.EnvVarApplyConfiguration{corev1ac.EnvVar().WithName(nvidiaVariable).WithValue("void")}
	}
	card := func(name string) *corev1ac.EnvVarApplyConfiguration {
		return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(
			corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.annotations['" + v1alpha1.AnnotationCard + "']")))
	}
	return []*corev1ac.EnvVarApplyConfiguration{card(cardVariable), card(nvidiaVariable)}
}

// cardReference stands for the chosen cards in a command; the kubelet fills it in.
func (g GPU) cardReference() string {
	if g.Mode != GPUDevicePlugin {
		return ""
	}
	return "$(" + cardVariable + ")"
}

// errNoCardInCommands: the kubelet fills in what a Pod declares, and a claim's
// card is told to the container by its runtime, later.
var errNoCardInCommands = errors.New("${GPU_UUID} in a command or a variable cannot be filled in where cards come by resource claims: read the variable " + cardVariable + " in the container, or leave it out, because the container sees its own cards only")

func cardsOf(need v1alpha1.GPU) int32 { return max(1, need.Count) }
