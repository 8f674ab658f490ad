package operator

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Which ReplicaSet runs what is declared is known at once while there can only
// be one, and otherwise from the Deployment's controller alone.
func TestCurrentReplicaSet(t *testing.T) {
	t.Parallel()
	made := time.Unix(1_800_000_000, 0)
	set := func(uid, revision string, at time.Time, owner types.UID) metav1.PartialObjectMetadata {
		yes := true
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(uid), CreationTimestamp: metav1.NewTime(at), Annotations: map[string]string{revisionAnnotation: revision},
			OwnerReferences: []metav1.OwnerReference{{Kind: kindDeployment, UID: owner, Controller: &yes}},
		}}
	}
	for name, c := range map[string]struct {
		generation, observed int64
		sets                 []metav1.PartialObjectMetadata
		want                 string
	}{
		"none yet":                       {1, 0, nil, ""},
		"the first, not reported yet":    {1, 0, []metav1.PartialObjectMetadata{set("a", "", made, "d")}, "a"},
		"an older one, taken over":       {1, 0, []metav1.PartialObjectMetadata{set("a", "", made.Add(-time.Minute), "d")}, ""},
		"somebody else's":                {1, 0, []metav1.PartialObjectMetadata{set("a", "", made, "other")}, ""},
		"two, not reported yet":          {1, 0, []metav1.PartialObjectMetadata{set("a", "", made, "d"), set("b", "", made, "d")}, ""},
		"two, reported":                  {1, 1, []metav1.PartialObjectMetadata{set("a", "1", made, "d"), set("b", "2", made, "d")}, "b"},
		"after a change, not reported":   {2, 1, []metav1.PartialObjectMetadata{set("a", "1", made, "d")}, ""},
		"after a change, which kept it":  {2, 2, []metav1.PartialObjectMetadata{set("a", "2", made, "d")}, "a"},
		"after a change, not its latest": {2, 2, []metav1.PartialObjectMetadata{set("a", "1", made, "d")}, ""},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			UID: "d", Generation: c.generation, CreationTimestamp: metav1.NewTime(made), Annotations: map[string]string{revisionAnnotation: "2"},
		}}
		d.Status.ObservedGeneration = c.observed
		if got := (Observed{Deployment: d, ReplicaSets: c.sets}).currentReplicaSet(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
