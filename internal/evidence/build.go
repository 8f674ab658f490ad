package evidence

import (
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/traffic"
)

// Facts is everything that was read about one reservation. A part that could
// not be read says so in its error; its steps are then unknown, never ok.
type Facts struct {
	Reservation budget.Reservation
	Standing    *budget.Standing // while it waits
	Journal     []budget.Entry
	Intents     []budget.Intent
	Binding     *budget.Binding
	Status      *delivery.Status // nil: the target knows no such object
	Sleeping    int              // replicas that sleep in host memory; Status has the others
	StatusErr   error
	Last        []delivery.Replica   // what the target remembers of replicas, also of ended ones
	LastFailure *delivery.Failure    // what it remembers of an object that is gone
	Inspection  *delivery.Inspection // what stands between object and replicas; nil: the target does not tell
	InspectErr  error
	Endpoints   []traffic.Endpoint
	// EndpointsErr is why not every gateway could be asked for them.
	EndpointsErr error
	LiveKeys     int // of the owner
	Grants       []budget.Grant
	First        *traffic.Chunk
	Latest       *traffic.Chunk
	LastCall     *traffic.Inference // the newest, delivered or not
	Halted       string             // why nothing is admitted, delivered or credited at present
	ByHand       *budget.AuditEntry // somebody deleted the object, which ended the reservation
	Now          time.Time
}

// Names of the steps, in the order of the path.
const (
	StepSubmitted  = "submitted"
	StepReserved   = "reserved"
	StepDelivered  = "delivered"
	StepChildren   = "children"
	StepPlaced     = "placed"
	StepDevice     = "device"
	StepStarted    = "started"
	StepRoutable   = "routable"
	StepPermitted  = "permitted"
	StepFirstChunk = "firstChunk"
	StepDeleting   = "deleting"
	StepGone       = "gone"
	StepCredited   = "credited"
)

// Build judges the facts: every step of the path, the three answers, and the
// first broken link.
func Build(f Facts) Document {
	doc := Document{Ref: f.Reservation.Ref}
	add := func(account Account, s Step) {
		s.Seq, s.Account = len(doc.Steps)+1, account
		if s.Facts == nil {
			s.Facts = map[string]any{}
		}
		doc.Steps = append(doc.Steps, s)
	}
	add(Budget, f.submitted())
	add(Budget, f.reserved())
	add(Delivery, f.delivered())
	add(Delivery, f.children())
	add(Delivery, f.placed())
	add(Delivery, f.device())
	add(Delivery, f.started())
	add(Traffic, f.routable())
	add(Traffic, f.permitted())
	add(Traffic, f.firstChunk())
	if !f.Reservation.ReleaseRequestedAt.IsZero() && !f.Reservation.ReservedAt.IsZero() {
		add(Release, f.deleting())
		add(Release, f.gone())
		add(Release, f.credited())
	}
	doc.Answers = f.answers()
	conclude(&doc, f)
	return doc
}

// conclude names the first broken link, or else what is still pending, and
// what to do next.
func conclude(doc *Document, f Facts) {
	step := firstWith(doc.Steps, Broken)
	if step != nil {
		doc.BrokenAt = step.Name
	} else if step = firstWith(doc.Steps, Unknown); step == nil {
		step = firstWith(doc.Steps, Pending)
	}
	if step == nil {
		return
	}
	doc.Reason = step.Reason
	doc.Message = f.message(*step)
	if f.Halted != "" && step.Account != Traffic {
		doc.Message = f.Halted + " (" + doc.Message + ")"
	}
	doc.NextAction = nextAction(step.Reason)
	if doc.NextAction == readEngineLogs && f.neverRan(step) {
		doc.NextAction = "CorrectTheStart"
	}
	if doc.NextAction == callTheModel && (f.ended() || f.Reservation.State.Final()) {
		doc.NextAction = nextAction(ReasonReleasedBeforeReady) // it cannot be called any more
	}
}

func firstWith(steps []Step, status StepStatus) *Step {
	for i := range steps {
		if steps[i].Status == status {
			return &steps[i]
		}
	}
	return nil
}

func (f Facts) answers() Answers {
	var a Answers
	debits, credits := f.count(budget.OpReserve), f.count(budget.OpRelease)
	switch {
	case f.Reservation.State == budget.Waiting:
	case debits == 0:
		a.BudgetSpentOnce = no()
	default:
		_, fits := f.journalled()
		a.BudgetSpentOnce = answer(debits == 1 && credits <= 1 && fits)
	}
	switch {
	case f.everReady():
		a.ModelStarted = yes()
	case f.Reservation.State.Final() || f.failure() != nil:
		a.ModelStarted = no()
	}
	switch {
	case f.First != nil:
		a.FirstChunkDelivered = yes()
	case f.lostChunk() || f.Reservation.State.Final():
		a.FirstChunkDelivered = no()
	}
	return a
}

func (f Facts) count(op budget.Op) int {
	n := 0
	for _, e := range f.Journal {
		if e.Op == op {
			n++
		}
	}
	return n
}

// everReady reports whether it is known that a replica was ready: it may have
// ended before anybody looked, but none that was not answers a call.
func (f Facts) everReady() bool {
	return (f.Binding != nil && f.Binding.EverReady) || (f.Status != nil && f.Status.EverReady()) || f.First != nil
}

// failure is the last failure of a model that is not ready now and never was.
func (f Facts) failure() *delivery.Failure {
	if f.Status == nil || f.everReady() {
		return nil
	}
	return f.Status.LastFailure
}

// lostChunk reports whether the newest call reached an endpoint and its
// answer was lost: by the engine, or because the caller left. A caller who
// left the waiting room says nothing about the model.
func (f Facts) lostChunk() bool {
	if f.First != nil || f.LastCall == nil {
		return false
	}
	switch f.LastCall.Outcome {
	case traffic.UpstreamCut, traffic.UpstreamError:
		return true
	case traffic.ClientCancelled:
		return !f.LastCall.SentAt.IsZero()
	default:
		return false
	}
}

func yes() *bool          { return answer(true) }
func no() *bool           { return answer(false) }
func answer(b bool) *bool { return &b }
