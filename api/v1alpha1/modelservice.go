package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModelService is a model that runs for one reservation of the ledger.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=msvc,categories=modeldock
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.model.version`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   ModelServiceSpec   `json:"spec"`
	Status ModelServiceStatus `json:"status,omitempty"`
}

// ModelServiceList is a list of ModelServices.
//
// +kubebuilder:object:root=true
type ModelServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelService `json:"items"`
}

// ModelServiceSpec is what delivery wants. Tenant, RequestID and Budget are
// written by delivery alone, Replicas by exactly one scaler.
//
// +kubebuilder:validation:XValidation:rule="self.tenant == oldSelf.tenant",message="tenant cannot be changed: the object belongs to one reservation"
// +kubebuilder:validation:XValidation:rule="self.requestID == oldSelf.requestID",message="requestID cannot be changed: the object belongs to one reservation"
// +kubebuilder:validation:XValidation:rule="self.scaling.min <= self.scaling.max",message="scaling.min must not be above scaling.max"
// +kubebuilder:validation:XValidation:rule="self.engine.kind != 'custom' || (has(self.engine.command) && size(self.engine.command) > 0) || (has(self.engine.image) && size(self.engine.image) > 0)",message="engine custom needs a command or an image"
type ModelServiceSpec struct {
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`
	Tenant string `json:"tenant"`
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`
	RequestID string `json:"requestID"`
	Model     Model  `json:"model"`
	// +kubebuilder:validation:Enum=llm;vision;recommender
	// +kubebuilder:default=llm
	Class string `json:"class,omitempty"`
	// +kubebuilder:validation:Enum=online;batch
	// +kubebuilder:default=online
	Workload string `json:"workload,omitempty"`
	Engine   Engine `json:"engine"`
	GPU      GPU    `json:"gpu"`
	// Replicas is how many should run; the scale subresource's field. No more
	// than Budget.FundedReplicas ever do.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	Replicas int32   `json:"replicas"`
	Scaling  Scaling `json:"scaling"`
	// +kubebuilder:default={weight: 100}
	Traffic Traffic `json:"traffic,omitempty"`
	// +kubebuilder:default={enabled: false}
	Cache Cache `json:"cache,omitempty"`
	// +kubebuilder:default={timeoutSeconds: 120, maxWaiting: 1000}
	ColdStart ColdStart `json:"coldStart,omitempty"`
	Budget    Budget    `json:"budget"`
}

// Model names what is served.
type Model struct {
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`
	// +kubebuilder:default=v1
	Version string `json:"version,omitempty"`
	// Source of the weights: hf:// s3:// oci:// pvc:// file:// or empty.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^(hf|s3|oci|pvc|file)://.+')",message="source must begin with hf:// s3:// oci:// pvc:// or file://, or be empty"
	Source string `json:"source,omitempty"`
}

// Engine is the program that serves the model.
type Engine struct {
	// +kubebuilder:validation:Enum=simulated;custom;llamacpp;ollama;vllm;sglang
	Kind string `json:"kind"`
	// Image of the container; empty: the operator's default for the kind.
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []EnvVar `json:"env,omitempty"`
	// Port that the engine listens on; 0: the kind's own.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// HealthPath answers 200 once the model serves; empty: the kind's own.
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._/-]*)?$`
	HealthPath string `json:"healthPath,omitempty"`
}

// EnvVar is one variable of the engine's environment.
type EnvVar struct {
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// GPU is what one replica needs of cards.
type GPU struct {
	// MemoryMiB per card.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	MemoryMiB int64 `json:"memoryMiB"`
	// Count of cards per replica.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	Count int32 `json:"count,omitempty"`
}

// Scaling bounds the number of replicas and says how it follows the load.
type Scaling struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Min int32 `json:"min"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max"`
	// Actuator is the one who writes spec.replicas: the controller, a
	// HorizontalPodAutoscaler, KEDA, or a person.
	// +kubebuilder:validation:Enum=direct;hpa;keda;none
	// +kubebuilder:default=direct
	Actuator string `json:"actuator,omitempty"`
	// Targets that replace those of class and workload; 0: theirs.
	Targets *ScalingTargets `json:"targets,omitempty"`
	// Behavior that replaces that of class and workload.
	Behavior *ScalingBehavior `json:"behavior,omitempty"`
	// IdleSeconds without a request, counted from Ready, after which a model
	// with min 0 sleeps; 0: what class and workload say.
	// +kubebuilder:validation:Minimum=0
	IdleSeconds int32 `json:"idleSeconds,omitempty"`
	// Paused leaves spec.replicas as it is.
	Paused bool `json:"paused,omitempty"`
}

// ScalingTargets are what a replica should carry.
type ScalingTargets struct {
	// +kubebuilder:validation:Minimum=0
	QueueDepth int32 `json:"queueDepth,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	KVCachePercent int32 `json:"kvCachePercent,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	GPUMemoryPercent int32 `json:"gpuMemoryPercent,omitempty"`
	// +kubebuilder:validation:Minimum=0
	LatencyP99Milliseconds int32 `json:"latencyP99Milliseconds,omitempty"`
}

// ScalingBehavior has the meaning of a HorizontalPodAutoscaler's.
type ScalingBehavior struct {
	ScaleUp   *ScalingRules `json:"scaleUp,omitempty"`
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`
}

// ScalingRules bound the change in one direction.
type ScalingRules struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`
	// +kubebuilder:validation:Enum=Max;Min;Disabled
	SelectPolicy string `json:"selectPolicy,omitempty"`
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Policies []ScalingPolicy `json:"policies,omitempty"`
	// Tolerance of the ratio of value to target, in thousandths.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	TolerancePermille *int32 `json:"tolerancePermille,omitempty"`
}

// ScalingPolicy is the most that may change within a period.
type ScalingPolicy struct {
	// +kubebuilder:validation:Enum=Pods;Percent
	Type string `json:"type"`
	// +kubebuilder:validation:Minimum=1
	Value int32 `json:"value"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	PeriodSeconds int32 `json:"periodSeconds"`
}

// Traffic is this version's share among the versions of one model name.
type Traffic struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Weight int32 `json:"weight"`
}

// Cache configures the exact-match result cache.
type Cache struct {
	Enabled bool `json:"enabled"`
	// +kubebuilder:validation:Minimum=0
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
}

// ColdStart bounds what callers may wait for.
type ColdStart struct {
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds int32 `json:"timeoutSeconds"`
	// +kubebuilder:validation:Minimum=0
	MaxWaiting int32 `json:"maxWaiting"`
}

// Budget is what the ledger pays for.
type Budget struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	FundedReplicas int32 `json:"fundedReplicas"`
}

// ModelServiceStatus is what is really there.
type ModelServiceStatus struct {
	// ObservedGeneration is the metadata.generation that the rest speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas that exist, terminating ones included.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas of this generation that answer their health check.
	ReadyReplicas int32 `json:"readyReplicas"`
	// Selector of the Pods, for the scale subresource.
	Selector string `json:"selector,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +listType=map
	// +listMapKey=uid
	Pods        []PodStatus `json:"pods,omitempty"`
	LastFailure *Failure    `json:"lastFailure,omitempty"`
	// +listType=atomic
	ScalingHistory []ScalingStep `json:"scalingHistory,omitempty"`
}

// PodStatus is one replica.
type PodStatus struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	Node string `json:"node,omitempty"`
	// Card is the uuid of the first card, as the scheduler decided.
	Card       string          `json:"card,omitempty"`
	Phase      corev1.PodPhase `json:"phase,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Message    string          `json:"message,omitempty"`
	ReadySince *metav1.Time    `json:"readySince,omitempty"`
	// Engine is what the engine itself says that it serves.
	Engine string `json:"engine,omitempty"`
	// EverReady stays true when a replica that answered its health check does
	// not any more: it crashed, and did not fail to load.
	EverReady bool `json:"everReady,omitempty"`
	// Terminating Pods still hold their card.
	Terminating bool `json:"terminating,omitempty"`
}

// Failure is the last failure of a replica.
type Failure struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Pod that failed.
	Pod      string      `json:"pod,omitempty"`
	At       metav1.Time `json:"at"`
	ExitCode int32       `json:"exitCode,omitempty"`
}

// ScalingStep is one change of the number of replicas.
type ScalingStep struct {
	At      metav1.Time `json:"at"`
	From    int32       `json:"from"`
	To      int32       `json:"to"`
	Reason  string      `json:"reason"`
	Message string      `json:"message,omitempty"`
}

// Types of conditions.
const (
	ConditionChildrenApplied    = "ChildrenApplied"
	ConditionScheduled          = "Scheduled"
	ConditionDevicesAllocated   = "DevicesAllocated"
	ConditionEngineReady        = "EngineReady"
	ConditionReady              = "Ready"
	ConditionAutoscalerConflict = "AutoscalerConflict"
	ConditionOwnershipConflict  = "OwnershipConflict"
	ConditionStalled            = "Stalled"
)

// Reasons of AutoscalerConflict.
const (
	ReasonForeignAutoscaler = "ForeignAutoscaler" // scales the object, and the settings name another one
	ReasonAutoscalersFight  = "AutoscalersFight"  // several scale the object
	ReasonAutoscalerBelow   = "AutoscalerBelow"   // scales the Deployment, in vain
)
