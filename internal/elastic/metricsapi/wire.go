package metricsapi

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// valueList and what it holds are k8s.io/metrics' MetricValueList, which is
// not worth a module of its own here.
type valueList struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta `json:"metadata"`
	Items           []value         `json:"items"`
}

type value struct {
	DescribedObject corev1.ObjectReference `json:"describedObject"`
	Metric          identifier             `json:"metric"`
	Timestamp       metav1.Time            `json:"timestamp"`
	Value           resource.Quantity      `json:"value"`
}

type identifier struct {
	Name string `json:"name"`
}

func group() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: Group + "/" + Version, Version: Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: Group,
		Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	}
}

func resources() metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: Group + "/" + Version}
	for _, of := range []string{resourcePods, resourceModels} {
		for _, metric := range names() {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: of + "/" + metric, Namespaced: true, Kind: "MetricValueList", Verbs: metav1.Verbs{"get"}})
		}
	}
	return list
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: message, Reason: reason, Code: int32(code), //nolint:gosec // a status code
	})
}
