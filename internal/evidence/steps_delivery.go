package evidence

import (
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// attemptsBeforeBroken is how many failed deliveries are taken for a hiccup.
const attemptsBeforeBroken = 3

// paid reports whether the budget step was passed, so that delivery has begun.
func (f Facts) paid() bool { return !f.Reservation.ReservedAt.IsZero() }

// ended reports whether the reservation went away again, so that the target
// has nothing left to show.
func (f Facts) ended() bool { return !f.Reservation.ReleaseRequestedAt.IsZero() }

func notYet(name, source string) Step {
	return Step{Name: name, Source: source, Status: Pending, Reason: ReasonNotYet}
}

func (f Facts) delivered() Step {
	s := notYet(StepDelivered, "ledger:outbox,binding")
	if !f.paid() {
		return s
	}
	var last budget.Intent
	for _, in := range f.Intents {
		if in.Op == budget.Apply {
			last = in
		}
	}
	s.Facts = map[string]any{"attempts": last.Attempts, "generation": last.Generation}
	if b := f.Binding; b != nil {
		s.Facts["name"], s.Facts["uid"] = b.Name, b.UID
		if !last.DeliveredAt.IsZero() || f.ended() {
			s.Status, s.Reason, s.At = OK, "", b.BoundAt
			return s
		}
		// A change of a model that was delivered before is on its way.
	}
	s.Reason = string(delivery.Undelivered)
	if f.ended() { // nothing is delivered any more
		s.Reason = ReasonReleasedBeforeReady
		if f.Reservation.State.Final() {
			s.Status = Broken
		}
		return s
	}
	if last.LastError != "" {
		s.Found = last.LastError
		s.Facts["nextAttemptAt"] = last.NextAttemptAt.UTC().Format(time.RFC3339)
		if delivery.IsNameTaken(last.LastError) {
			s.Reason = string(delivery.NameTaken)
			s.Expected = "an object of this request under the name " + delivery.ObjectName(f.Reservation.Ref)
		}
		if s.Reason == string(delivery.NameTaken) || last.Attempts >= attemptsBeforeBroken {
			s.Status = Broken
		}
	}
	return s
}

// world returns the target's view for a step, or the step as it must be told
// without one: done earlier (the reservation ended), lost, or unreadable.
func (f Facts) world(name, source string) (*delivery.Status, Step) {
	s := notYet(name, source)
	switch {
	case f.Binding == nil:
		return nil, s
	case f.asleep(), f.ended() && (f.Status == nil || !f.Status.Exists || f.Status.Ready == 0):
		switch {
		case !f.everReady():
			s.Reason = ReasonReleasedBeforeReady
		case f.Binding.EverReady:
			s.Status, s.Reason, s.At, s.Source = OK, "", f.Binding.FirstReadyAt, "ledger:binding"
		case f.First != nil:
			s.Status, s.Reason, s.At, s.Source = OK, "", f.First.FirstByteAt, "ledger:first_chunk"
		default: // the ledger is about to know
			s.Status, s.Reason = OK, ""
		}
		return nil, s
	case f.StatusErr != nil:
		s.Status, s.Reason, s.Found = Unknown, ReasonUnreadable, f.StatusErr.Error()
		return nil, s
	case f.Status == nil || !f.Status.Exists:
		s.Status, s.Reason = Broken, ReasonLost
		s.Expected, s.Found = "object "+f.Binding.Name+" with uid "+f.Binding.UID, "no such object"
		return nil, s
	}
	return f.Status, s
}

// remembered reports whether the reservation ended, or sleeps, and the target
// still knows what it ran for it.
func (f Facts) remembered() bool {
	return (f.ended() || f.asleep()) && f.Binding != nil && len(f.Last) > 0
}

// asleep reports whether the model was ready and runs nothing now because
// nobody asks for it: what was proven stays so.
func (f Facts) asleep() bool {
	return f.Status != nil && f.Status.Asleep() && f.Binding != nil && f.Binding.EverReady && f.Status.Object.UID == f.Binding.UID
}

// witness is a replica as it is now, or, where it has no process now, as it
// was when it last had one: a crash does not undo what happened before it.
func (f Facts) witness(r delivery.Replica) delivery.Replica {
	if r.Placed() && !r.StartedAt.IsZero() {
		return r
	}
	for _, last := range f.Last {
		if last.Name == r.Name && last.Placed() {
			return last
		}
	}
	return r
}

// proven returns the replicas to judge a step of the past by: those of the
// status, or those that are remembered.
func (f Facts) proven(st *delivery.Status) []delivery.Replica {
	if st == nil && f.remembered() {
		return f.Last
	}
	if st == nil {
		return nil
	}
	return st.Replicas
}

func (f Facts) started() Step {
	st, s := f.world(StepStarted, "engine:health,identity")
	if st == nil {
		if s.Reason == ReasonReleasedBeforeReady && f.Reservation.State.Final() {
			s.Status = Broken
			if f.LastFailure != nil {
				return f.failed(s, *f.LastFailure)
			}
		}
		if s.Status == OK && f.remembered() {
			s.Facts = f.identity(f.Last[0])
		}
		return s
	}
	if r := longestReady(st.Replicas); r != nil {
		s.Status, s.Reason, s.At = OK, "", r.ReadyAt
		s.Facts = f.identity(*r)
		s.Facts["ready"], s.Facts["wanted"] = st.Ready, st.Wanted
		return s
	}
	s.Reason = string(st.Reason)
	switch st.Reason {
	case delivery.ImagePullFailed, delivery.ProgressDeadlineExceeded:
		s.Status, s.Expected, s.Found = Broken, "the engine answers its health check", st.Message
		return s
	}
	// The last end may have been told as a first crash, before it was known that
	// there are more.
	if fail := st.LastFailure; fail != nil && (fail.Reason != delivery.Crashed || st.Reason == delivery.CrashLooping) {
		last := *fail
		if last.Reason == delivery.Crashed {
			last.Reason = delivery.CrashLooping
		}
		return f.failed(s, last)
	}
	if st.Reason == delivery.ModelLoadFailed { // it was never run at all
		s.Status, s.Expected, s.Found = Broken, "the engine's container runs", st.Message
	}
	return s
}

// longestReady is the replica that proves the start: a younger one beside it
// says nothing new, whatever its name.
func longestReady(replicas []delivery.Replica) *delivery.Replica {
	var first *delivery.Replica
	for i := range replicas {
		if r := &replicas[i]; r.Phase == delivery.PhaseReady && (first == nil || r.ReadyAt.Before(first.ReadyAt)) {
			first = r
		}
	}
	return first
}

// failed is the step of a model that did not start.
func (f Facts) failed(s Step, fail delivery.Failure) Step {
	s.Status, s.Reason, s.At, s.Found = Broken, string(fail.Reason), fail.At, fail.Message
	s.Expected = "the engine answers its health check"
	s.Facts = map[string]any{"exitCode": fail.ExitCode, "replica": fail.Replica}
	if r := f.witness(delivery.Replica{Name: fail.Replica}); r.UID != "" {
		s.Facts["replicaUid"] = r.UID
		if r.PID != 0 {
			s.Facts["pid"] = r.PID
		}
	}
	return s
}

// neverRan tells that the step failed before there was a process.
func (f Facts) neverRan(s *Step) bool {
	return s.Name == StepStarted && f.Status != nil && f.Status.LastFailure != nil && f.Status.LastFailure.NeverRan
}

// identity tells which process or container it is, and what its engine says.
func (f Facts) identity(r delivery.Replica) map[string]any {
	facts := map[string]any{"replica": r.Name, "replicaUid": r.UID, "engineReports": r.Engine, "restarts": r.Restarts}
	if f.Inspection != nil && f.Inspection.Engines[r.UID] != "" {
		facts["engineReports"] = f.Inspection.Engines[r.UID]
	}
	if r.PID != 0 {
		facts["pid"] = r.PID
	}
	stamp(facts, "startedAt", r.StartedAt)
	return facts
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
