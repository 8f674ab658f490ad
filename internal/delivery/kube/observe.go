package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/kube"
)

const (
	// reachedFor is how long one answer of the API server stands for "it is
	// there", awayFor how long one failure stands for "it is not".
	reachedFor = 2 * time.Second
	awayFor    = time.Second
	// reachWait bounds the question.
	reachWait = 3 * time.Second
)

// reach fails while the API server, its store or its ModelServices cannot be
// read. A watch alone would not tell: it is silent when nothing happens too.
func (t *Target) reach(ctx context.Context) error {
	t.reaching.Lock() // whoever comes meanwhile takes the same answer
	defer t.reaching.Unlock()
	age := t.cfg.Clock().Sub(t.reachedAt)
	if t.away == nil && age < reachedFor || t.away != nil && age < awayFor {
		return t.away
	}
	asked, cancel := context.WithTimeout(ctx, reachWait)
	defer cancel()
	err := t.live.List(asked, &v1alpha1.ModelServiceList{}, client.InNamespace(t.cfg.Watched), client.Limit(1))
	if err != nil {
		err = fmt.Errorf("the API server cannot be read: list ModelServices: %w", err)
	}
	if ctx.Err() == nil { // otherwise it says nothing of the API server
		t.reachedAt, t.away = t.cfg.Clock(), err
	}
	return err
}

// current fails while the followed lists are not what the API server has.
func (t *Target) current() error { return errors.Join(t.services.Current(), t.pods.Current()) }

// Observe reports what is there of ref's object. What is there is taken from
// the followed lists; what is new, or may be gone, is read from the API server,
// so that nothing is called gone that is not.
func (t *Target) Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := t.reach(ctx); err != nil {
		return delivery.Status{}, err
	}
	key, known := t.where(ref)
	if known && t.current() == nil {
		ms, _ := t.services.Get(key.Namespace, key.Name)
		if ms != nil && t.ours(ms, ref) == nil {
			st := t.status(ms, t.pods.By(key.Name))
			if st.DeletingAt.IsZero() || st.Processes() > 0 {
				return st, nil
			}
		}
	}
	return t.observeLive(ctx, ref, key)
}

func (t *Target) observeLive(ctx context.Context, ref budget.Ref, key client.ObjectKey) (delivery.Status, error) {
	var ms v1alpha1.ModelService
	err := t.live.Get(ctx, key, &ms)
	there := err == nil
	if err != nil && !kube.Absent(err, key.Name) {
		return delivery.Status{}, fmt.Errorf("read ModelService %s: %w", key, err)
	}
	left, err := t.remains(ctx, key)
	if err != nil {
		return delivery.Status{}, err
	}
	if there && t.ours(&ms, ref) == nil {
		st := t.status(&ms, left.pods)
		st.Earlier = left.earlier(ms.UID)
		return st, nil
	}
	return t.withoutObject(ref, key, left, ms.UID), nil
}

// withoutObject is the status of a reservation that has no object: what is
// left of one that is gone, or nothing. foreign is the UID of somebody else's
// object of the same name, if there is one.
func (t *Target) withoutObject(ref budget.Ref, key client.ObjectKey, left remains, foreign types.UID) delivery.Status {
	st := delivery.Status{Ref: ref, Foreign: string(foreign), ObservedAt: t.cfg.Clock()}
	uids := slices.DeleteFunc(left.uids(), func(u types.UID) bool { return u == foreign })
	if len(uids) == 0 {
		st.Object, st.Last, st.LastFailure = t.proofs.of(key.Namespace, key.Name)
		st.Reason, st.Message = delivery.DeletedByHand, fmt.Sprintf("ModelService %s is not there and nothing is left of it", key)
		if foreign != "" {
			st.Reason, st.Message = delivery.NameTaken, fmt.Sprintf("ModelService %s (uid %s) belongs to somebody else and was left untouched", key, foreign)
		}
		return st
	}
	st.Exists, st.Missing, st.Ledger = true, true, t.cfg.Ledger
	st.Object = budget.Object{Namespace: key.Namespace, Name: key.Name, UID: string(uids[0])}
	st.Earlier = left.earlier(uids[0], foreign)
	st.Replicas = replicas(podsOf(left.pods, uids[0]), nil, st.ObservedAt)
	t.dressAll(&st, left.pods, nil)
	_, st.Last, st.LastFailure = t.proofs.of(key.Namespace, key.Name)
	st.Reason = delivery.DeletedByHand
	st.Message = fmt.Sprintf("ModelService %s (uid %s) is gone and %d of its Pods are not; its slots are kept until they are", key, uids[0], len(st.Replicas))
	return st
}

// List observes every ModelService. It fails rather than show what may be out
// of date: what a list lacks would be taken for lost.
func (t *Target) List(ctx context.Context) ([]delivery.Status, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := t.reach(ctx); err != nil {
		return nil, err
	}
	if err := t.current(); err != nil {
		return nil, err
	}
	var out []delivery.Status
	named := map[client.ObjectKey]bool{}
	for _, ms := range t.services.All() {
		named[client.ObjectKeyFromObject(ms)] = true
		if !owned(ms, t.cfg.Ledger) {
			out = append(out, t.foreign(ms))
			continue
		}
		out = append(out, t.status(ms, t.pods.By(ms.Name)))
	}
	orphans, err := t.orphanedPods(ctx, named)
	if err != nil {
		return nil, err
	}
	out = append(out, orphans...)
	slices.SortFunc(out, func(a, b delivery.Status) int {
		return cmp.Or(cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Object.Namespace, b.Object.Namespace))
	})
	return out, nil
}

// orphanedPods are the Pods of objects that are gone, by object. The list of
// objects may only be behind that of the Pods, so the API server is asked.
func (t *Target) orphanedPods(ctx context.Context, named map[client.ObjectKey]bool) ([]delivery.Status, error) {
	var out []delivery.Status
	for _, pod := range t.pods.All() {
		ref := refOf(pod)
		key := client.ObjectKey{Namespace: pod.Namespace, Name: serviceName(pod)}
		if named[key] || ledgerOf(pod) != t.cfg.Ledger || delivery.ObjectName(ref) != key.Name {
			continue
		}
		named[key] = true
		st, err := t.observeLive(ctx, ref, key)
		if err != nil {
			return nil, err
		}
		if st.Exists {
			out = append(out, st)
		}
	}
	return out, nil
}

func (t *Target) foreign(ms *v1alpha1.ModelService) delivery.Status {
	st := delivery.Status{
		Ref: refOf(ms), Object: identity(ms), Ledger: ledgerOf(ms), Exists: true, Generation: generation(ms),
		Reason: delivery.NotOwned, Message: fmt.Sprintf("it belongs to %s and was left untouched", describe(ms)),
		CreatedAt: ms.CreationTimestamp.Time, ObservedAt: t.cfg.Clock(),
	}
	if st.Ledger == t.cfg.Ledger { // it claims to be ours and is not
		st.Ledger = ""
	}
	return st
}

// podsOf are the Pods that carry a UID, or that do not say which.
func podsOf(pods []*corev1.Pod, uid types.UID) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return carried(p) != uid && carried(p) != "" })
}
