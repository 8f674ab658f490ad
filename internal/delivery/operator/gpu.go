package operator

import (
	"fmt"
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

// GPU is how Pods ask for cards. Everything but Mode belongs to GPUDevicePlugin.
type GPU struct {
	Mode          GPUMode // empty: GPUNone
	SchedulerName string  // empty: the cluster's default scheduler
	Resource      string  // default modeldock.io/gpu-memory
	ChunkMiB      int64   // what one unit of Resource stands for; default 256
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
	return g
}

func (g GPU) validate() error {
	switch {
	case g.Mode == GPUDRA:
		return fmt.Errorf("operator: GPU mode %q is not available in this version; use %q or %q", g.Mode, GPUNone, GPUDevicePlugin)
	case g.Mode != GPUNone && g.Mode != GPUDevicePlugin:
		return fmt.Errorf("operator: GPU mode %q is unknown; use %q or %q", g.Mode, GPUNone, GPUDevicePlugin)
	case g.ChunkMiB < 1:
		return fmt.Errorf("operator: GPU chunks of %d MiB are no chunks; give at least 1", g.ChunkMiB)
	}
	return nil
}

// annotations tell the scheduler what one replica needs.
func (g GPU) annotations(need v1alpha1.GPU) map[string]string {
	if g.Mode != GPUDevicePlugin {
		return nil
	}
	return map[string]string{
		v1alpha1.AnnotationGPUMemory: strconv.FormatInt(need.MemoryMiB, 10),
		v1alpha1.AnnotationGPUCount:  strconv.Itoa(int(cardsOf(need))),
	}
}

// limits count the memory per card in whole chunks, as the cards do.
func (g GPU) limits(need v1alpha1.GPU) corev1.ResourceList {
	if g.Mode != GPUDevicePlugin {
		return nil
	}
	perCard := (need.MemoryMiB + g.ChunkMiB - 1) / g.ChunkMiB
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

func cardsOf(need v1alpha1.GPU) int32 { return max(1, need.Count) }
