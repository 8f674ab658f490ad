package v1alpha1

// LabelUID carries a ModelService's UID on its children and on their Pods, to
// be selected by; AnnotationObjectUID says the same, so that a Pod whose labels
// were changed is still known to hold the object's cards.
const LabelUID = GroupName + "/uid"

// Labels of children and Pods for people and for policies. A name that is no
// valid label value stands there as its hash; the annotations AnnotationTenant
// and AnnotationID have it in full.
const (
	LabelTenant = GroupName + "/tenant"
	LabelModel  = GroupName + "/model"
)

// LabelBuffer stands on what keeps room for replicas, and names its Deployment;
// AnnotationBuffer says for which pool and class.
const (
	LabelBuffer      = GroupName + "/buffer"
	AnnotationBuffer = GroupName + "/buffer-of"
)

// Annotations of a Pod by which the scheduler is told what a replica needs of
// cards; which it chose it tells by AnnotationCard and AnnotationCardIndex.
const (
	AnnotationGPUMemory = "scheduler.ai/gpu-memory-mb" // MiB per card
	AnnotationGPUCount  = "scheduler.ai/gpu-count"
	// What the scheduler prefers among cards that fit.
	AnnotationGPUClass    = "scheduler.ai/gpu-class"    // as in spec.class
	AnnotationGPUWorkload = "scheduler.ai/gpu-workload" // as in spec.workload
)

// Where cards come by resource claims: the driver, which also names its
// DeviceClass, and the capacity of its devices that claims share.
const (
	DRADriver   = "gpu." + GroupName
	DRACapacity = "memory"
)
