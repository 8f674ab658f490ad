package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// longestNote is how long an event's text may be.
const longestNote = 1000

// tellTaken makes an event of a name that is taken, once for each request and
// object: who looks at the object that is in the way learns why somebody else
// waits. The object itself is not written to, and nothing depends on the event.
func (t *Target) tellTaken(ctx context.Context, ms *v1alpha1.ModelService, ref budget.Ref, taken error) {
	sum := sha256.Sum256([]byte(string(ms.UID) + "\x00" + t.cfg.Ledger + "\x00" + ref.Tenant + "\x00" + ref.ID))
	host, _ := os.Hostname() // an event of nowhere in particular is good enough
	note := taken.Error()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: ms.Namespace, Name: ms.Name + "." + hex.EncodeToString(sum[:8])},
		EventTime:           metav1.NewMicroTime(t.cfg.Clock()),
		ReportingController: v1alpha1.GroupName + "/delivery", ReportingInstance: agent + "-" + host,
		Action: "Deliver", Reason: string(delivery.NameTaken), Type: corev1.EventTypeWarning, Note: note[:min(len(note), longestNote)],
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: "ModelService", Namespace: ms.Namespace, Name: ms.Name, UID: ms.UID,
		},
	}
	if err := t.live.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		t.cfg.Logger.Warn("no event tells that a name is taken", "object", ms.Name, "uid", ms.UID, "err", err)
	}
}
