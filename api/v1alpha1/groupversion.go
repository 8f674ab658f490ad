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
	// LabelModelService names the ModelService that a child belongs to; the
	// value is its name, which is a valid label.
	LabelModelService = GroupName + "/modelservice"
	// LabelManagedBy marks every child; the value is "modeldock".
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "modeldock"
	// FinalizerLedger keeps an object until the last Pod that carried its UID
	// is gone.
	FinalizerLedger = GroupName + "/ledger"
)
