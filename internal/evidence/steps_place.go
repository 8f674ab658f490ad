package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/delivery"
)

// schedulingDeadline is how long a replica may look for a node before that
// counts as broken: an autoscaler may be bringing one.
const schedulingDeadline = 30 * time.Second

// Reasons that a cluster adds.
const (
	ReasonOwnershipConflict = "OwnershipConflict"
	ReasonTerminating       = "Terminating"
	ReasonNotReady          = "NotReady"
)

// untracked is the fact where no card was asked for.
const untracked = "untracked"

// children is what was made of the object: on a cluster its Deployment and the
// ReplicaSet of this generation, on one machine its replicas.
func (f Facts) children() Step {
	st, s := f.world(StepChildren, "target:object")
	if st == nil {
		if f.remembered() {
			s.Status, s.Reason, s.At = OK, "", f.Last[0].PlacedAt
			s.Facts = map[string]any{"replicas": len(f.Last)}
		}
		return s
	}
	s.At = st.CreatedAt
	s.Facts = map[string]any{"wanted": st.Wanted, "replicas": len(st.Replicas), "generation": st.Generation}
	if f.Sleeping > 0 {
		s.Facts["asleep"] = f.Sleeping
	}
	if st.Object.UID != f.Binding.UID {
		s.Status, s.Reason = Broken, string(delivery.NotOwned)
		s.Expected, s.Found = "uid "+f.Binding.UID, "uid "+st.Object.UID
		return s
	}
	switch {
	case st.Reason == delivery.NotOwned:
		s.Status, s.Reason, s.Found = Broken, ReasonOwnershipConflict, st.Message
		s.Expected = "children that are controlled by uid " + st.Object.UID
		return s
	case st.Reason == delivery.ReplicaFailure:
		s.Status, s.Reason, s.Found = Broken, string(delivery.ReplicaFailure), st.Message
		s.Expected = fmt.Sprintf("%d Pods that the cluster lets in", st.Wanted)
		return s
	case f.InspectErr != nil:
		s.Status, s.Reason, s.Found = Unknown, ReasonUnreadable, f.InspectErr.Error()
		return s
	case f.Inspection != nil && !f.deployed(&s, st):
		return s
	}
	if len(st.Replicas) >= st.Wanted && st.Wanted > 0 {
		s.Status, s.Reason = OK, ""
	}
	return s
}

// deployed writes the object's Deployment and its newest ReplicaSet into the
// step, and reports whether both are there.
func (f Facts) deployed(s *Step, st *delivery.Status) bool {
	s.Source = "cluster:deployment,replicaset"
	deployment := slices.IndexFunc(f.Inspection.Children, func(c delivery.Child) bool { return c.Kind == "Deployment" && c.OwnerUID == st.Object.UID })
	if deployment < 0 {
		if st.Reason == delivery.ModelLoadFailed { // the operator cannot declare one
			s.Status, s.Reason, s.Found = Broken, string(st.Reason), st.Message
			s.Expected = "a Deployment of uid " + st.Object.UID
		}
		return false
	}
	d := f.Inspection.Children[deployment]
	s.Facts["deployment"], s.Facts["deploymentUid"], s.Facts["ownerUid"] = d.Name, d.UID, d.OwnerUID
	set := slices.IndexFunc(f.Inspection.Children, func(c delivery.Child) bool {
		return c.Kind == "ReplicaSet" && c.OwnerUID == d.UID && c.Revision == d.Revision
	})
	if set < 0 || !d.Seen {
		return false
	}
	rs := f.Inspection.Children[set]
	s.Facts["replicaSet"], s.Facts["replicaSetUid"], s.Facts["revision"] = rs.Name, rs.UID, rs.Revision
	return true
}

// placed is the decision where every replica runs.
func (f Facts) placed() Step {
	st, s := f.world(StepPlaced, "target:replicas")
	replicas := f.proven(st)
	if len(replicas) == 0 {
		return s
	}
	var last time.Time
	for i, r := range replicas {
		if !r.Placed() && f.unplaceable(&s, r, i+1, len(replicas)) {
			return s
		}
		if r = f.witness(r); !r.Placed() {
			return s
		}
		last = later(last, r.PlacedAt)
	}
	r := f.witness(replicas[0])
	s.Status, s.Reason, s.At = OK, "", last
	s.Facts = map[string]any{"node": r.Node, "replicaUid": r.UID}
	if len(r.Cards) == 0 {
		s.Facts["cards"] = untracked
		return s
	}
	s.Facts["card"], s.Facts["mib"] = r.Cards[0].UUID, r.Cards[0].MiB
	if r.Cards[0].FreeMiB > 0 { // as far as the decision is known here
		s.Facts["freeMiBAtDecision"] = r.Cards[0].FreeMiB
	}
	if len(r.Cards) > 1 {
		s.Facts["uuids"] = uuids(r.Cards)
	}
	return s
}

func uuids(cards []delivery.Card) []string {
	list := make([]string, 0, len(cards))
	for _, c := range cards {
		list = append(list, c.UUID)
	}
	return list
}

// unplaceable judges a replica without a place; false: it may get one yet, and
// may have had one before.
func (f Facts) unplaceable(s *Step, r delivery.Replica, n, of int) bool {
	switch {
	case r.Reason == delivery.NoFragmentFits:
		s.Expected = fmt.Sprintf("%d card(s) with %d MiB free each", f.Reservation.Model.GPUs, f.Reservation.Model.GPUMemory)
	case r.Reason == delivery.Unplaceable:
		s.Expected = "what a submit takes"
	case r.Reason == delivery.WaitingForNode && r.Node == "":
		s.Reason = string(r.Reason)
		if r.CreatedAt.IsZero() || f.Now.Sub(r.CreatedAt) < schedulingDeadline {
			return false
		}
		s.Expected = fmt.Sprintf("a node that takes the replica within %s", schedulingDeadline)
	default:
		return false
	}
	s.Status, s.Reason, s.Found = Broken, string(r.Reason), fmt.Sprintf("replica %d of %d: %s", n, of, r.Message)
	return true
}

// device is what the running process or container was given.
func (f Facts) device() Step {
	st, s := f.world(StepDevice, "target:replicas")
	replicas := f.proven(st)
	if len(replicas) == 0 {
		return s
	}
	var last time.Time
	var seen map[string]any
	for _, r := range replicas {
		r = f.witness(r)
		if !r.Placed() || r.StartedAt.IsZero() {
			return s
		}
		last = later(last, r.StartedAt)
		seen = map[string]any{"isolation": "none", "cards": untracked}
		if len(r.Cards) > 0 {
			seen = map[string]any{"card": r.Cards[0].UUID, "cardModel": r.Cards[0].Model, "simulated": r.Cards[0].Simulated, "isolation": cmp.Or(r.Cards[0].Isolation, "none")}
		}
	}
	s.Status, s.Reason, s.At, s.Facts = OK, "", last, seen
	return s
}
