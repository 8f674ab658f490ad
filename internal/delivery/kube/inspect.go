package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

const (
	// identityWait bounds the question to an engine: a network policy may let
	// gateways through and nobody else.
	identityWait = 150 * time.Millisecond
	// mostAsked bounds how many replicas are asked.
	mostAsked = 4
	// mostSaid bounds what an engine can make us read.
	mostSaid = 1 << 20
	// revision is where the Deployment controller counts rollouts.
	revision = "deployment.kubernetes.io/revision"
)

var (
	_ delivery.Inspecting = (*Target)(nil)
	_ delivery.Comparing  = (*Target)(nil)
)

// Differs implements delivery.Comparing on the followed list.
func (t *Target) Differs(_ context.Context, d delivery.Desired) (string, error) {
	key, known := t.where(d.Ref)
	if !known {
		return "", nil
	}
	ms, _ := t.services.Get(key.Namespace, key.Name)
	if ms == nil || !owned(ms, t.cfg.Ledger) || refOf(ms) != d.Ref || !ms.DeletionTimestamp.IsZero() || d.Generation < generation(ms) {
		return "", nil
	}
	next := ms.DeepCopy()
	write(next, d, !d.Model.Elastic())
	switch {
	case equality.Semantic.DeepEqual(ms, next):
		return "", nil
	case ms.Spec.Replicas != next.Spec.Replicas:
		return fmt.Sprintf("spec.replicas is %d and was delivered as %d", ms.Spec.Replicas, next.Spec.Replicas), nil
	case !equality.Semantic.DeepEqual(ms.Spec, next.Spec):
		return "its spec is not as it was delivered", nil
	}
	return "its annotations or its finalizer are not as they were delivered", nil
}

// Inspect implements delivery.Inspecting: the object's Deployment and
// ReplicaSets as the API server has them, and what its engines say of
// themselves.
func (t *Target) Inspect(ctx context.Context, st delivery.Status) (delivery.Inspection, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var out delivery.Inspection
	engines := make(chan map[string]string, 1)
	go func() { engines <- identities(ctx, st.Replicas) }()
	var err error
	out.Children, err = t.children(ctx, st)
	out.Engines = <-engines
	return out, err
}

func (t *Target) children(ctx context.Context, st delivery.Status) ([]delivery.Child, error) {
	in, of := client.InNamespace(st.Object.Namespace), client.MatchingLabels{v1alpha1.LabelModelService: st.Object.Name}
	var children []delivery.Child
	add := func(kind string, o metav1.Object, observed int64, wanted *int32, there, ready int32) {
		if string(carried(o)) != st.Object.UID {
			return // of an earlier object, or of nobody
		}
		c := delivery.Child{Kind: kind, Name: o.GetName(), UID: string(o.GetUID()), Revision: o.GetAnnotations()[revision], Seen: observed >= o.GetGeneration(), Wanted: 1, There: int(there), Ready: int(ready)}
		if owner := metav1.GetControllerOf(o); owner != nil {
			c.OwnerUID = string(owner.UID)
		}
		if wanted != nil {
			c.Wanted = int(*wanted)
		}
		children = append(children, c)
	}
	var deployments appsv1.DeploymentList
	if err := t.live.List(ctx, &deployments, in, of); err != nil {
		return nil, fmt.Errorf("list the Deployments of ModelService %s/%s: %w", st.Object.Namespace, st.Object.Name, err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		add("Deployment", d, d.Status.ObservedGeneration, d.Spec.Replicas, d.Status.Replicas, d.Status.ReadyReplicas)
	}
	var sets appsv1.ReplicaSetList
	if err := t.live.List(ctx, &sets, in, of); err != nil {
		return nil, fmt.Errorf("list the ReplicaSets of ModelService %s/%s: %w", st.Object.Namespace, st.Object.Name, err)
	}
	for i := range sets.Items {
		rs := &sets.Items[i]
		add("ReplicaSet", rs, rs.Status.ObservedGeneration, rs.Spec.Replicas, rs.Status.Replicas, rs.Status.ReadyReplicas)
	}
	return children, nil
}

// identities asks ready engines what they serve, all at once.
func identities(ctx context.Context, replicas []delivery.Replica) map[string]string {
	ready := slices.DeleteFunc(slices.Clone(replicas), func(r delivery.Replica) bool { return r.Phase != delivery.PhaseReady || r.Address == "" })
	ready = ready[:min(len(ready), mostAsked)]
	said := make([]string, len(ready))
	var all sync.WaitGroup
	for i, r := range ready {
		all.Go(func() { said[i] = identityOf(ctx, r) })
	}
	all.Wait()
	out := map[string]string{}
	for i, r := range ready {
		if said[i] != "" {
			out[r.UID] = said[i]
		}
	}
	return out
}

// identityOf is the model that the engine lists: the one that callers ask for
// if it is among them. Empty: it did not tell.
func identityOf(ctx context.Context, r delivery.Replica) string {
	ctx, cancel := context.WithTimeout(ctx, identityWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Address+"/v1/models", nil)
	if err != nil {
		return ""
	}
	// No proxy and no redirect: what answers must be the Pod itself.
	asker := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := asker.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, mostSaid)).Decode(&list) != nil || len(list.Data) == 0 {
		return ""
	}
	model := list.Data[0]
	for _, m := range list.Data {
		if m.ID == r.Upstream {
			model = m
		}
	}
	return delivery.Identity(model.ID, model.OwnedBy)
}
