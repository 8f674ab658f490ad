//go:build cluster

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// What somebody changes of an object is noticed, and applying it again ends it;
// what the API server fills in is no change.
func TestDiffers(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	d.Model.Env = map[string]string{"B": "2", "A": "1"}
	obj := b.apply(d)
	differs := func(says string) {
		t.Helper()
		b.eventually("the difference: "+says, func() error {
			at, err := b.target.Differs(t.Context(), d)
			if err != nil || (says == "") != (at == "") || !strings.Contains(at, says) {
				return fmt.Errorf("%q, %v", at, err)
			}
			return nil
		})
	}
	b.eventually("the object is seen", func() error {
		list, err := b.target.List(t.Context())
		if err != nil || len(list) != 1 {
			return fmt.Errorf("%d objects, %v", len(list), err)
		}
		return nil
	})
	differs("")
	for says, patch := range map[string]string{
		"spec.replicas is 5": `{"spec":{"replicas":5}}`,
		"its spec":           `{"spec":{"engine":{"args":["--other"]}}}`,
		"its annotations":    `{"metadata":{"annotations":{"modeldock.io/ledger-generation":"0"}}}`,
	} {
		ms := b.stored(obj.Name)
		b.must(b.api.Patch(t.Context(), ms, client.RawPatch("application/merge-patch+json", []byte(patch))))
		differs(says)
		b.apply(d)
		differs("")
	}
	late := d
	late.Generation = 0 // of an older intent: the newer object is not its business
	if at, err := b.target.Differs(t.Context(), late); at != "" || err != nil {
		t.Errorf("an older intent finds %q, %v", at, err)
	}
}

// Inspect tells the children of this very object from others of its name.
func TestInspectShowsTheObjectsOwnChildren(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	obj := b.apply(desired(b, "demo"))
	own := deployment(b, obj)
	earlier := own.DeepCopy()
	earlier.ObjectMeta = metav1.ObjectMeta{Namespace: b.namespace, Name: "earlier", Labels: own.Labels, Annotations: map[string]string{v1alpha1.AnnotationObjectUID: "another-uid"}}
	b.must(b.api.Create(t.Context(), earlier))
	found, err := b.target.Inspect(t.Context(), delivery.Status{Object: obj})
	b.must(err)
	if len(found.Children) != 1 || found.Children[0].UID != string(own.UID) || found.Children[0].Wanted != 1 || found.Children[0].Kind != "Deployment" {
		t.Errorf("children %+v", found.Children)
	}
}
