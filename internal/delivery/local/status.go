package local

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
)

// status tells what is really there. Called under the lock.
func (t *Target) status(o *object) delivery.Status {
	st := delivery.Status{
		Ref: o.rec.ref(), Object: o.rec.object(), Ledger: o.rec.ledger(), JournalSeq: o.rec.journalSeq(), Exists: true,
		Generation: o.rec.Generation, Wanted: o.wanted(), Asked: o.rec.asked(), Funded: o.rec.Funded, Scaling: o.rec.Scaling, LastFailure: o.lastFailure,
		CreatedAt: o.rec.CreatedAt, DeletingAt: o.rec.DeletingAt, ObservedAt: t.now(),
	}
	for _, i := range slices.Sorted(maps.Keys(o.slots)) {
		r := t.replica(o, o.slots[i])
		if r.Phase == delivery.PhaseReady && st.Ready < st.Wanted {
			st.Ready++
		}
		st.Replicas = append(st.Replicas, r)
		if run := o.slots[i].run; run != nil {
			st.Generation = min(st.Generation, run.generation) // older until it is replaced
		}
	}
	st.Last = t.lastOf(o)
	st.Reason, st.Message = reasonOf(st)
	return st
}

func (t *Target) replica(o *object, s *slot) delivery.Replica {
	v := delivery.Replica{
		Name: replicaName(o.rec.Name, s.index), Node: t.cfg.Node, Restarts: s.restarts,
		Reason: s.reason, Message: s.message,
	}
	r := s.run
	if r == nil {
		v.Phase = delivery.PhasePending
		if s.failures > 0 && s.retryAt.After(t.now()) {
			v.Phase = delivery.PhaseBackoff
		}
		if s.reason == delivery.Crashed {
			v.Reason = delivery.Loading // it is back in a moment
		}
		return v
	}
	v.UID, v.Phase, v.Message = r.uid, r.phase, r.message
	v.Cards = slices.Clone(r.cards)
	v.Upstream, v.Engine = r.upstream, r.identity
	v.PlacedAt, v.StartedAt, v.ReadyAt, v.WokenAt = r.placedAt, r.startedAt, r.readyAt, r.wokenAt
	if r.proc != nil {
		v.PID = r.proc.Model.PID
		v.Address = r.address()
	}
	switch r.phase {
	case delivery.PhaseReady:
		v.Reason = delivery.Available
	case delivery.PhaseAsleep:
		v.Reason = delivery.ScaledToZero
	case delivery.PhaseTerminating:
		v.Reason = delivery.Draining
		if strings.HasPrefix(r.message, string(delivery.ReleaseBlocked)) {
			v.Reason = delivery.ReleaseBlocked
		}
	default:
		v.Reason = delivery.Loading
	}
	return v
}

func (r *run) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// holding is the number of replicas that hold a card for what they are paid for:
// one that is ended in its sleep holds none.
func holding(st delivery.Status) (n int) {
	for _, r := range st.Replicas {
		if r.UID != "" && r.Phase != delivery.PhaseAsleep && len(r.Cards) > 0 {
			n++
		}
	}
	return n
}

// reasonOf names the first true cause: what keeps a replica from running
// counts before what merely has not happened yet.
func reasonOf(st delivery.Status) (delivery.Reason, string) {
	if !st.DeletingAt.IsZero() {
		for _, r := range st.Replicas {
			if r.Reason == delivery.ReleaseBlocked {
				return delivery.ReleaseBlocked, fmt.Sprintf("replica %s on node %s: %s", r.Name, r.Node, r.Message)
			}
		}
		return delivery.Draining, fmt.Sprintf("the object is going away; %d replicas still hold their cards", st.Processes())
	}
	asleep := ""
	if n := st.Sleeping(); n > 0 {
		asleep = fmt.Sprintf("; the engines of %d more stay loaded in host memory", n)
	}
	if st.Wanted == 0 {
		return delivery.ScaledToZero, "it sleeps: the next call wakes it" + strings.Replace(asleep, " more", "", 1)
	}
	if st.Ready >= st.Wanted {
		message := fmt.Sprintf("%d of %d replicas are ready", st.Ready, st.Wanted)
		if more := holding(st) - st.Wanted; more > 0 {
			message += fmt.Sprintf("; %d more are ending and hold their cards and slots until then", more)
		}
		return delivery.Available, message + asleep
	}
	for _, cause := range []delivery.Reason{
		delivery.Unplaceable, delivery.ModelLoadFailed, delivery.CrashLooping, delivery.ProgressDeadlineExceeded, delivery.PortTaken, delivery.NoFragmentFits,
	} {
		for _, r := range st.Replicas {
			if r.Reason == cause {
				return cause, fmt.Sprintf("replica %s: %s", r.Name, r.Message)
			}
		}
	}
	// A failed replica that is being tried again is still failed until it is ready.
	if f := st.LastFailure; f != nil && retrying(st, f) {
		return f.Reason, fmt.Sprintf("replica %s is started again: %s", f.Replica, f.Message)
	}
	message := fmt.Sprintf("%d of %d replicas are ready", st.Ready, st.Wanted)
	for _, r := range st.Replicas {
		if r.Phase != delivery.PhaseReady && r.Phase != delivery.PhaseAsleep && r.Message != "" {
			return delivery.Loading, message + "; replica " + r.Name + ": " + r.Message
		}
	}
	return delivery.Loading, message
}

// retrying reports whether the failed replica's next attempt has not been
// ready yet, and failed more than by one crash of a model that once worked.
func retrying(st delivery.Status, f *delivery.Failure) bool {
	for _, r := range st.Replicas {
		if r.Name == f.Replica {
			return r.ReadyAt.IsZero() && f.Reason != delivery.Crashed
		}
	}
	return false
}

// changedStatuses returns what is news since the last call. Called under the lock.
func (t *Target) changedStatuses() []delivery.Status {
	var out []delivery.Status
	for _, name := range slices.Sorted(maps.Keys(t.objects)) {
		o := t.objects[name]
		st := t.status(o)
		same := st
		same.ObservedAt = time.Time{}
		if !reflect.DeepEqual(same, o.published) {
			o.published = same
			out = append(out, st)
		}
	}
	return out
}

// changedEndpoints lists the routable replicas, and whether that is news.
// Called under the lock.
func (t *Target) changedEndpoints() ([]Endpoint, bool) {
	list := []Endpoint{}
	for _, name := range slices.Sorted(maps.Keys(t.objects)) {
		o := t.objects[name]
		for _, i := range slices.Sorted(maps.Keys(o.slots)) {
			r := o.slots[i].run
			if r == nil || r.stopping || r.phase != delivery.PhaseReady {
				continue
			}
			list = append(list, Endpoint{
				UID: r.uid, Ref: o.rec.ref(), ObjectUID: o.rec.UID, Model: o.rec.Model.Name, Version: o.rec.Model.Version,
				Address: r.address(), Upstream: r.upstream, Node: t.cfg.Node, Card: r.cards[0].UUID, CardModel: r.cards[0].Model,
				Parallel: engine.Parallel(o.rec.Model), ReadyAt: r.readyAt, UserID: t.userOf(o.rec),
			})
		}
	}
	if t.endpoints != nil && slices.Equal(list, t.endpoints) {
		return nil, false
	}
	t.endpoints = list
	return slices.Clone(list), true
}
