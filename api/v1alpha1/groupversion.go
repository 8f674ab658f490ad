// Package v1alpha1 is the custom resource ModelService (modeldock.io/v1alpha1):
// what delivery wants to run for one reservation, and what is really there.
//
// +kubebuilder:object:generate=true
// +groupName=modeldock.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "modeldock.io"

// GroupVersion is the API group and version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &ModelService{}, &ModelServiceList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Names that stand on the objects of this project.
const (
	// AnnotationTenant, AnnotationID and AnnotationLedger say whose object it
	// is: the tenant, the request's id and the ledger's incarnation.
	AnnotationTenant = GroupName + "/tenant"
	AnnotationID     = GroupName + "/id"
	AnnotationLedger = GroupName + "/ledger"
	// AnnotationGeneration is the ledger's generation of the delivered intent.
	AnnotationGeneration = GroupName + "/ledger-generation"
	// AnnotationJournalSeq is the ledger's highest journal seq at the delivery.
	AnnotationJournalSeq = GroupName + "/journal-seq"
	// AnnotationObjectUID stands on every child, its Pods included: the UID of
	// the ModelService that it was made for. Names come back, UIDs do not: slots
	// are given back, and requests routed, by this one.
	AnnotationObjectUID = GroupName + "/object-uid"
	// AnnotationModel and AnnotationVersion stand on the headless Service and on
	// the Pods: what they serve. The owner is AnnotationTenant.
	AnnotationModel   = GroupName + "/model"
	AnnotationVersion = GroupName + "/version"
	// AnnotationUpstream stands on the headless Service: the model name that the
	// engine serves; absent: AnnotationModel's.
	AnnotationUpstream = GroupName + "/upstream"
	// AnnotationParallel stands on the headless Service: how many requests one
	// replica runs at once; absent: not known.
	AnnotationParallel = GroupName + "/parallel"
	// AnnotationCard, AnnotationCardIndex and AnnotationCardFree stand on a Pod:
	// the uuids and the indices of its cards, and the MiB that each had free
	// before, separated by commas, as the scheduler decided.
	AnnotationCard      = "scheduler.ai/gpu-device-uuid"
	AnnotationCardIndex = "scheduler.ai/gpu-index"
	AnnotationCardFree  = "scheduler.ai/gpu-free-mb"
	// LabelModelService stands on every child, also on Pods and on what the
	// Service's EndpointSlices inherit, and names the ModelService; the value is
	// its name, which is a valid label.
	LabelModelService = GroupName + "/modelservice"
	// LabelManagedBy marks every child; the value is "modeldock".
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "modeldock"
	// FinalizerLedger keeps an object until the ledger knows that it is being
	// deleted and the last Pod that carried its UID is gone. Delivery alone puts
	// it and takes it away.
	FinalizerLedger = GroupName + "/ledger"
	// PortName is the name of the engine's port on Pods and Services.
	PortName = "http"
	// ContainerName is the name of the engine's container in its Pods.
	ContainerName = "engine"
)
