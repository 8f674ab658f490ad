package evidence_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ref  = budget.Ref{Tenant: "team-a", ID: "demo"}
	path = []string{"submitted", "reserved", "delivered", "children", "placed", "device", "started", "routable", "permitted", "firstChunk"}
	ends = []string{"deleting", "gone", "credited"}
)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// waitingFacts is a request that was just submitted.
func waitingFacts() evidence.Facts {
	return evidence.Facts{
		Reservation: budget.Reservation{
			Ref: ref, Revision: 1, Generation: 1, Cost: 1, Priority: 50, Model: modelspec.Default("demo"), State: budget.Waiting,
			Pool: "default", Submits: 1, CreatedAt: noon, ExpiresAt: noon.Add(time.Hour),
		},
		Standing: &budget.Standing{Reason: budget.AwaitingAdmission, Message: "it is admitted in its turn", Need: 1, TenantCap: 2, Pool: "default", PoolCap: 8},
		LiveKeys: 1, Now: at(100),
	}
}

func entry(op budget.Op, revision, slots int64) budget.Entry {
	return budget.Entry{Ref: ref, Pool: "default", Op: op, Revision: revision, Slots: slots, At: at(1)}
}

// reservedFacts is paid for; its outbox row waits to be delivered.
func reservedFacts() evidence.Facts {
	f := waitingFacts()
	f.Standing = nil
	f.Reservation.State, f.Reservation.Revision, f.Reservation.Held, f.Reservation.ReservedAt = budget.Reserved, 2, 1, at(1)
	f.Journal = []budget.Entry{entry(budget.OpReserve, 2, 1)}
	f.Intents = []budget.Intent{{Ref: ref, Op: budget.Apply, Generation: 1, Funded: 1}}
	return f
}

// readyFacts answers its health check and was never called.
func readyFacts() evidence.Facts {
	f := reservedFacts()
	obj := budget.Object{Name: delivery.ObjectName(ref), UID: "u1"}
	f.Intents[0].Attempts, f.Intents[0].DeliveredAt = 1, at(2)
	f.Binding = &budget.Binding{Ref: ref, Object: obj, BoundAt: at(2), EverReady: true, FirstReadyAt: at(6)}
	f.Status = &delivery.Status{
		Ref: ref, Object: obj, Exists: true, Generation: 1, Wanted: 1, Ready: 1, Reason: delivery.Available, CreatedAt: at(2),
		Replicas: []delivery.Replica{{
			Name: "r-0", UID: "p1", Phase: delivery.PhaseReady, Node: "n1", PID: 42, Engine: "demo",
			Cards:    []delivery.Card{{UUID: "card-0", Model: "simulated", Simulated: true, MiB: 4096, FreeMiB: 24576}},
			PlacedAt: at(3), StartedAt: at(4), ReadyAt: at(6),
		}},
	}
	f.Endpoints = []traffic.Endpoint{{UID: "p1", Address: "127.0.0.1:9", Since: at(7)}}
	return f
}

// grownFacts serves with one replica, and the second one is not placed.
func grownFacts(why delivery.Reason) evidence.Facts {
	f := readyFacts()
	f.Reservation.Held, f.Reservation.Funded, f.Reservation.Revision, f.Reservation.Generation = 2, 2, 3, 2
	f.Journal = append(f.Journal, entry(budget.OpGrow, 3, 1))
	f.Intents = append(f.Intents, budget.Intent{Ref: ref, Op: budget.Apply, Generation: 2, Funded: 2, DeliveredAt: at(10)})
	f.Status.Wanted, f.Status.Generation, f.Status.Reason, f.Status.Message = 2, 2, why, "1 of 2 replicas are ready"
	f.Status.Replicas = append(f.Status.Replicas, delivery.Replica{Name: "r-1", Phase: delivery.PhasePending, Reason: why, Message: "largest free block 2000"})
	return f
}

// changed has a generation that did not reach the target yet.
func changed(lastError string) func(*evidence.Facts) {
	return func(f *evidence.Facts) {
		f.Intents = append(f.Intents, budget.Intent{Ref: ref, Op: budget.Apply, Generation: 2, Attempts: 3, LastError: lastError, NextAttemptAt: at(30)})
	}
}

// loadingFacts runs and does not answer yet.
func loadingFacts() evidence.Facts {
	f := readyFacts()
	f.Binding.EverReady, f.Binding.FirstReadyAt, f.Endpoints = false, time.Time{}, nil
	f.Status.Ready, f.Status.Reason, f.Status.Message = 0, delivery.Loading, "1 replica loads"
	f.Status.Replicas[0].Phase, f.Status.Replicas[0].ReadyAt = delivery.PhaseLoading, time.Time{}
	return f
}

// servedFacts delivered a first chunk.
func servedFacts() evidence.Facts {
	f := readyFacts()
	f.First = &traffic.Chunk{InferenceID: "i1", EndpointUID: "p1", Tenant: "team-a", SentAt: at(8), FirstByteAt: at(8), At: at(9)}
	latest := *f.First
	latest.InferenceID = "i2"
	f.Latest = &latest
	f.LastCall = &traffic.Inference{RequestID: "i2", Outcome: traffic.Completed, Status: 200, ReceivedAt: at(8), SentAt: at(8)}
	return f
}

// releasing asks for the end.
func releasing(f evidence.Facts) evidence.Facts {
	f.Reservation.ReleaseRequestedAt = at(20)
	f.Reservation.Revision++
	f.Intents = append(f.Intents, budget.Intent{Ref: ref, Op: budget.Delete})
	return f
}

// released was credited after everything was seen to be gone.
func released(f evidence.Facts) evidence.Facts {
	f = releasing(f)
	f.Reservation.State, f.Reservation.ReleasedAt, f.Reservation.Held = budget.Released, at(22), 0
	f.Reservation.Revision++
	f.Journal = append(f.Journal, entry(budget.OpRelease, 4, -1))
	f.Intents[len(f.Intents)-1].DeliveredAt = at(21)
	f.Status, f.Endpoints = nil, nil
	if f.Binding != nil {
		f.Binding.GoneAt = at(21)
	}
	return f
}

func with(f evidence.Facts, change func(*evidence.Facts)) evidence.Facts {
	change(&f)
	return f
}

func standing(reason budget.Reason) evidence.Facts {
	return with(waitingFacts(), func(f *evidence.Facts) {
		f.Standing.Reason, f.Standing.Message, f.Standing.TenantUsed = reason, "tenant team-a holds 2 of 2 slots", 2
	})
}

func called(o traffic.Outcome, reached bool) evidence.Facts {
	return with(readyFacts(), func(f *evidence.Facts) {
		f.LastCall = &traffic.Inference{RequestID: "i9", Outcome: o, Status: 502, Error: "what went wrong", ReceivedAt: at(8)}
		if reached {
			f.LastCall.SentAt = at(8)
		}
	})
}

func notDelivered(lastError string, attempts int64) evidence.Facts {
	return with(reservedFacts(), func(f *evidence.Facts) {
		f.Intents[0].LastError, f.Intents[0].Attempts, f.Intents[0].NextAttemptAt = lastError, attempts, at(30)
	})
}

func boolText(b *bool) string {
	switch {
	case b == nil:
		return "?"
	case *b:
		return "y"
	default:
		return "n"
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts   evidence.Facts
		step    string // the step that the conclusion is about
		status  evidence.StepStatus
		reason  string
		answers string // budget, started, chunk: y, n or ?
		action  string
		message string
	}{
		"quota blocked":      {standing(budget.QuotaBlocked), "reserved", evidence.Broken, "QuotaBlocked", "???", "ReleaseOwnRequestOrRaiseQuota", "holds 2 of 2"},
		"pool blocked":       {standing(budget.PoolBlocked), "reserved", evidence.Broken, "PoolBlocked", "???", "WaitForPoolOrRaiseCap", ""},
		"exceeds quota":      {standing(budget.ExceedsQuota), "reserved", evidence.Broken, "ExceedsQuota", "???", "RaiseQuotaOrLowerCost", ""},
		"exceeds pool":       {standing(budget.ExceedsPool), "reserved", evidence.Broken, "ExceedsPool", "???", "RaisePoolCapOrLowerCost", ""},
		"queued behind":      {standing(budget.QueuedBehind), "reserved", evidence.Pending, "QueuedBehind", "???", "WaitForPoolOrRaiseCap", ""},
		"awaiting admission": {standing(budget.AwaitingAdmission), "reserved", evidence.Pending, "AwaitingAdmission", "???", "Wait", ""},
		"ttl elapsed":        {standing(budget.TTLElapsed), "reserved", evidence.Pending, "TTLElapsed", "???", "SubmitAgainUnderNewID", ""},
		"standing unreadable": {with(waitingFacts(), func(f *evidence.Facts) { f.Standing = nil }),
			"reserved", evidence.Unknown, "Unreadable", "???", "Wait", ""},
		"expired": {with(waitingFacts(), func(f *evidence.Facts) {
			f.Standing, f.Reservation.State = nil, budget.Expired
		}), "reserved", evidence.Broken, "Expired", "nnn", "SubmitAgainUnderNewID", ""},
		"cancelled while waiting": {with(waitingFacts(), func(f *evidence.Facts) {
			f.Standing, f.Reservation.State = nil, budget.Released
			f.Reservation.ReleaseRequestedAt, f.Reservation.ReleasedAt = at(5), at(5)
		}), "reserved", evidence.Broken, "CancelledWhileWaiting", "nnn", "SubmitAgainUnderNewID", ""},
		"undelivered":        {reservedFacts(), "delivered", evidence.Pending, "Undelivered", "y??", "Wait", ""},
		"delivery hiccup":    {notDelivered("connection refused", 1), "delivered", evidence.Pending, "Undelivered", "y??", "Wait", "connection refused"},
		"poison row":         {notDelivered("payload cannot be read", 3), "delivered", evidence.Broken, "Undelivered", "y??", "Wait", "payload cannot be read"},
		"name taken at once": {notDelivered("apply: NameTaken: md-x", 1), "delivered", evidence.Broken, "NameTaken", "y??", "RemoveForeignObject", "NameTaken"},
		"target unreadable":  {with(loadingFacts(), unreadable), "children", evidence.Unknown, "Unreadable", "y??", "Wait", "api server away"},
		"ready, then unread": {with(readyFacts(), unreadable), "children", evidence.Unknown, "Unreadable", "yy?", "Wait", "api server away"},
		"object lost":        {with(readyFacts(), func(f *evidence.Facts) { f.Status = nil }), "children", evidence.Broken, "ObjectLost", "yy?", "CheckTheNode", "no such object"},
		"another's object":   {with(readyFacts(), func(f *evidence.Facts) { f.Status.Object.UID = "u2" }), "children", evidence.Broken, "NotOwned", "yy?", "RemoveForeignObject", "uid u2"},
		"children missing":   {with(loadingFacts(), func(f *evidence.Facts) { f.Status.Replicas = nil }), "children", evidence.Pending, "NotYet", "y??", "Wait", ""},
		"no fragment fits":   {noFragment(), "placed", evidence.Broken, "NoFragmentFits", "y??", "FreeCardMemoryOrAskForLess", "largest free block 2000"},
		"not placed yet":     {with(loadingFacts(), func(f *evidence.Facts) { f.Status.Replicas[0].Cards = nil }), "placed", evidence.Pending, "NotYet", "y??", "Wait", ""},
		"not started yet":    {with(loadingFacts(), func(f *evidence.Facts) { f.Status.Replicas[0].StartedAt = time.Time{} }), "device", evidence.Pending, "NotYet", "y??", "Wait", ""},
		"grown, one placed":  {grownFacts(delivery.NoFragmentFits), "placed", evidence.Broken, "NoFragmentFits", "yy?", "FreeCardMemoryOrAskForLess", "replica 2 of 2: largest free block 2000"},
		"grown, one loads":   {grownFacts(delivery.Loading), "placed", evidence.Pending, "NotYet", "yy?", "Wait", "1 of 2 replicas are ready"},
		"change undelivered": {with(readyFacts(), changed("")), "delivered", evidence.Pending, "Undelivered", "yy?", "Wait", ""},
		"change fails":       {with(readyFacts(), changed("target away")), "delivered", evidence.Broken, "Undelivered", "yy?", "Wait", "target away"},
		"grown twice":        {with(readyFacts(), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpGrow, 2, 1)) }), "reserved", evidence.Broken, "JournalMismatch", "ny?", "RunLedgerVerify", "expected 1 slots in the journal, which are held; found 2 slots"},
		"grown a moment ago": {with(readyFacts(), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpGrow, 3, 1)) }), "firstChunk", evidence.Pending, "NotCalled", "yy?", "CallTheModel", ""},
		"loading":            {loadingFacts(), "started", evidence.Pending, "Loading", "y??", "Wait", "1 replica loads"},
		"load failed":        {loadFailed(), "started", evidence.Broken, "ModelLoadFailed", "yn?", "ReadEngineLogs", "CUDA out of memory"},
		"never ran": {with(loadFailed(), func(f *evidence.Facts) {
			f.Status.LastFailure.Message, f.Status.LastFailure.NeverRan = "permission denied", true
		}), "started", evidence.Broken, "ModelLoadFailed", "yn?", "CorrectTheStart", "permission denied"},
		"ready a moment ago":  {with(readyFacts(), func(f *evidence.Facts) { f.Endpoints, f.Now = nil, at(10) }), "routable", evidence.Pending, "NotRoutable", "yy?", "CheckTheEndpoints", ""},
		"ready, not routable": {with(readyFacts(), func(f *evidence.Facts) { f.Endpoints = nil }), "routable", evidence.Broken, "NotRoutable", "yy?", "CheckTheEndpoints", "none at any gateway: r-0 has been ready since 2026-03-01T12:00:06Z"},
		"gateways unread":     {with(readyFacts(), func(f *evidence.Facts) { f.Endpoints, f.EndpointsErr = nil, errors.New("gateway g2: refused") }), "routable", evidence.Unknown, "Unreadable", "yy?", "Wait", "gateway g2: refused"},
		"one gateway unread":  {with(servedFacts(), func(f *evidence.Facts) { f.EndpointsErr = errors.New("gateway g2: refused") }), "", evidence.OK, "", "yyy", "", ""},
		"no live key":         {with(servedFacts(), func(f *evidence.Facts) { f.LiveKeys = 0 }), "permitted", evidence.Broken, "NoLiveKey", "yyy", "CreateKeyOrGrant", "neither"},
		"another's grant":     {with(readyFacts(), grant("team-b")), "permitted", evidence.Broken, "NoLiveKey", "yy?", "CreateKeyOrGrant", ""},
		"a grant is enough":   {with(readyFacts(), grant("team-a")), "firstChunk", evidence.Pending, "NotCalled", "yy?", "CallTheModel", ""},
		"ready, not called":   {readyFacts(), "firstChunk", evidence.Pending, "NotCalled", "yy?", "CallTheModel", "has not been called yet"},
		"cut before content":  {called(traffic.UpstreamCut, true), "firstChunk", evidence.Broken, "upstream_cut", "yyn", "ReadEngineLogs", "what went wrong"},
		"engine error":        {called(traffic.UpstreamError, true), "firstChunk", evidence.Broken, "upstream_error", "yyn", "ReadEngineLogs", ""},
		"caller left":         {called(traffic.ClientCancelled, true), "firstChunk", evidence.Broken, "client_cancelled", "yyn", "CallTheModel", ""},
		"waiter left":         {called(traffic.ClientCancelled, false), "firstChunk", evidence.Pending, "client_cancelled", "yy?", "CallTheModel", ""},
		"waited too long":     {called(traffic.ExpiredWaiting, false), "firstChunk", evidence.Pending, "expired_waiting", "yy?", "CallTheModel", ""},
		"empty answer":        {called(traffic.Completed, true), "firstChunk", evidence.Pending, "NoContent", "yy?", "CallTheModel", ""},
		"served":              {servedFacts(), "", evidence.OK, "", "yyy", "", ""},
		"cut after content":   {with(servedFacts(), func(f *evidence.Facts) { f.LastCall.Outcome = traffic.UpstreamCut }), "", evidence.OK, "", "yyy", "", ""},
		"two debits": {with(servedFacts(), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpReserve, 3, 1)) }),
			"reserved", evidence.Broken, "JournalMismatch", "nyy", "RunLedgerVerify", "2 debits"},
		"no debit": {with(servedFacts(), func(f *evidence.Facts) { f.Journal = nil }),
			"reserved", evidence.Broken, "JournalMismatch", "nyy", "RunLedgerVerify", "0 debits"},
		"a credit nobody asked for": {with(servedFacts(), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpRelease, 3, -1)) }),
			"reserved", evidence.Broken, "JournalMismatch", "yyy", "RunLedgerVerify", "1 credits"},
		"growth is no second debit": {with(servedFacts(), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpGrow, 3, 1)) }),
			"", evidence.OK, "", "yyy", "", ""},
		"release asked for": {releasing(servedFacts()), "deleting", evidence.Pending, "Stopping", "yyy", "Wait", ""},
		"release blocked":   {blocked(), "gone", evidence.Broken, "ReleaseBlocked", "yyy", "CheckTheNode", "process 42 does not end"},
		"gone unreadable": {with(released(servedFacts()), func(f *evidence.Facts) {
			f.Reservation.State, f.Reservation.Held, f.Binding.GoneAt, f.Journal = budget.Reserved, 1, time.Time{}, f.Journal[:1]
			unreadable(f)
		}), "gone", evidence.Unknown, "Unreadable", "yyy", "Wait", "api server away"},
		"released":            {released(servedFacts()), "", evidence.OK, "", "yyy", "", ""},
		"released, keys gone": {with(released(servedFacts()), func(f *evidence.Facts) { f.LiveKeys = 0 }), "", evidence.OK, "", "yyy", "", ""},
		"released, uncalled":  {released(readyFacts()), "firstChunk", evidence.Pending, "NotCalled", "yyn", "SubmitAgainUnderNewID", "ended without"},
		"released in loading": {released(loadingFacts()), "started", evidence.Broken, "ReleasedBeforeReady", "ynn", "SubmitAgainUnderNewID", ""},
		"released undelivered": {with(released(reservedFacts()), func(f *evidence.Facts) { f.Intents[0].LastError = budget.Superseded }),
			"delivered", evidence.Broken, "ReleasedBeforeReady", "ynn", "SubmitAgainUnderNewID", ""},
		"two credits": {with(released(servedFacts()), func(f *evidence.Facts) { f.Journal = append(f.Journal, entry(budget.OpRelease, 5, -1)) }),
			"credited", evidence.Broken, "JournalMismatch", "nyy", "RunLedgerVerify", "2 credits"},
		"no credit": {with(released(servedFacts()), func(f *evidence.Facts) { f.Journal = f.Journal[:1] }),
			"credited", evidence.Broken, "JournalMismatch", "yyy", "RunLedgerVerify", "0 credits"},
		"forced credit, still running": {with(released(servedFacts()), func(f *evidence.Facts) {
			f.Binding.GoneAt, f.Intents[1].DeliveredAt = time.Time{}, time.Time{}
			f.Status = servedFacts().Status
		}), "deleting", evidence.Pending, "Stopping", "yyy", "Wait", ""},
		"forced credit, stopping": {with(released(servedFacts()), func(f *evidence.Facts) {
			f.Binding.GoneAt, f.Status = time.Time{}, servedFacts().Status
		}), "gone", evidence.Pending, "ForcedRelease", "yyy", "Wait", ""},
		"forced credit, gone":     {with(released(servedFacts()), func(f *evidence.Facts) { f.Binding.GoneAt = time.Time{} }), "", evidence.OK, "", "yyy", "", ""},
		"releasing, uncalled":     {releasing(readyFacts()), "firstChunk", evidence.Pending, "NotCalled", "yy?", "SubmitAgainUnderNewID", ""},
		"released, left early":    {released(called(traffic.ClientCancelled, false)), "firstChunk", evidence.Pending, "client_cancelled", "yyn", "SubmitAgainUnderNewID", ""},
		"one crash is no end":     {crashed(delivery.Crashed, delivery.Loading), "started", evidence.Pending, "Loading", "yy?", "Wait", ""},
		"crash loop":              {crashed(delivery.CrashLooping, delivery.CrashLooping), "started", evidence.Broken, "CrashLooping", "yy?", "ReadEngineLogs", "segfault"},
		"crash loop, told as one": {crashed(delivery.Crashed, delivery.CrashLooping), "started", evidence.Broken, "CrashLooping", "yy?", "ReadEngineLogs", "segfault"},
		"foreign Deployment":      {onCluster(because(delivery.NotOwned, "Deployment md-x is controlled by chart y")), "children", evidence.Broken, "OwnershipConflict", "y??", "RemoveForeignObject", "chart y"},
		"Pods refused":            {onCluster(because(delivery.ReplicaFailure, "exceeded quota: small")), "children", evidence.Broken, "ReplicaFailure", "y??", "AllowThePods", "exceeded quota: small"},
		"Deployment not there":    {onCluster(func(f *evidence.Facts) { f.Inspection.Children = nil }), "children", evidence.Pending, "NotYet", "y??", "Wait", ""},
		"cannot be declared": {onCluster(because(delivery.ModelLoadFailed, "needs an image"), func(f *evidence.Facts) { f.Inspection.Children = nil }),
			"children", evidence.Broken, "ModelLoadFailed", "y??", "ReadEngineLogs", "needs an image"},
		"children unreadable":  {onCluster(func(f *evidence.Facts) { f.Inspection, f.InspectErr = nil, errors.New("list refused") }), "children", evidence.Unknown, "Unreadable", "y??", "Wait", "list refused"},
		"no node for a while":  {onCluster(nowhere(80)), "placed", evidence.Pending, "WaitingForNode", "y??", "FreeOrAddANode", ""},
		"no node":              {onCluster(nowhere(60)), "placed", evidence.Broken, "WaitingForNode", "y??", "FreeOrAddANode", "0/1 nodes are available"},
		"no image":             {onCluster(because(delivery.ImagePullFailed, "image a/b: not found")), "started", evidence.Broken, "ImagePullFailed", "y??", "CheckTheImage", "image a/b: not found"},
		"too slow":             {onCluster(because(delivery.ProgressDeadlineExceeded, "no progress in 20 min")), "started", evidence.Broken, "ProgressDeadlineExceeded", "y??", "ReadEngineLogs", "20 min"},
		"fell silent":          {onCluster(was(delivery.PhaseLoading)), "routable", evidence.Broken, "NotReady", "yy?", "ReadEngineLogs", "1 do not answer"},
		"all are ending":       {onCluster(was(delivery.PhaseTerminating)), "routable", evidence.Broken, "Terminating", "yy?", "Wait", "1 are ending"},
		"restarts after crash": {onCluster(was(delivery.PhaseBackoff)), "started", evidence.Pending, "Loading", "yy?", "Wait", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := evidence.Build(c.facts)
			checkOrder(t, doc, c.facts)
			checkConclusion(t, doc, c.step, c.status)
			if doc.Reason != c.reason || doc.NextAction != c.action || !strings.Contains(doc.Message, c.message) {
				t.Errorf("reason %q, next %q, message %q; want %q, %q, …%s…", doc.Reason, doc.NextAction, doc.Message, c.reason, c.action, c.message)
			}
			a := doc.Answers
			if got := boolText(a.BudgetSpentOnce) + boolText(a.ModelStarted) + boolText(a.FirstChunkDelivered); got != c.answers {
				t.Errorf("answers %s, want %s", got, c.answers)
			}
		})
	}
}

// onCluster is a Pod that loads, without a card that anybody knows of.
func onCluster(changes ...func(*evidence.Facts)) evidence.Facts {
	f := loadingFacts()
	f.Status.Replicas[0].Cards, f.Status.Replicas[0].Untracked, f.Status.Replicas[0].PID = nil, true, 0
	f.Inspection = &delivery.Inspection{Children: []delivery.Child{
		{Kind: "Deployment", Name: "md", UID: "d1", OwnerUID: "u1", Revision: "2", Seen: true, Wanted: 1, There: 1},
		{Kind: "ReplicaSet", Name: "md-1", UID: "rs1", OwnerUID: "d1", Revision: "1", Seen: true},
		{Kind: "ReplicaSet", Name: "md-2", UID: "rs2", OwnerUID: "d1", Revision: "2", Seen: true, Wanted: 1, There: 1},
	}}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func because(why delivery.Reason, message string) func(*evidence.Facts) {
	return func(f *evidence.Facts) { f.Status.Reason, f.Status.Message = why, message }
}

func nowhere(since int) func(*evidence.Facts) {
	return func(f *evidence.Facts) {
		f.Status.Replicas = []delivery.Replica{{Name: "p", UID: "p1", Untracked: true, CreatedAt: at(since), Phase: delivery.PhasePending, Reason: delivery.WaitingForNode, Message: "0/1 nodes are available"}}
	}
}

// was is a model that was ready and whose only replica is in another phase now.
func was(phase delivery.Phase) func(*evidence.Facts) {
	return func(f *evidence.Facts) {
		f.Binding.EverReady, f.Binding.FirstReadyAt = true, at(6)
		f.Status.Replicas[0].Phase, f.Status.Replicas[0].EverReady = phase, true
	}
}

// A replica that came later does not take the place of the one that proves the
// start, whatever its name.
func TestTheLongestReadyReplicaProvesTheStart(t *testing.T) {
	t.Parallel()
	f := servedFacts()
	younger := f.Status.Replicas[0]
	younger.Name, younger.UID, younger.ReadyAt = "a-before-r", "p2", at(60)
	f.Status.Replicas = []delivery.Replica{younger, f.Status.Replicas[0]}
	if s := find(t, evidence.Build(f), "started"); s.Facts["replicaUid"] != "p1" || !s.At.Equal(at(6)) {
		t.Errorf("started: %+v", s)
	}
}

// Where nobody tracks cards, that is a fact, and nothing is pending for it.
func TestUntrackedCardsAreAFact(t *testing.T) {
	t.Parallel()
	f := servedFacts()
	f.Inspection = onCluster().Inspection
	f.Inspection.Engines = map[string]string{"p1": "demo (owned by vllm)"}
	r := &f.Status.Replicas[0]
	r.Cards, r.Untracked, r.PID, r.Engine = nil, true, 0, ""
	for name, facts := range map[string]evidence.Facts{"live": f, "released": func() evidence.Facts { g := released(f); g.Last = f.Status.Replicas; return g }()} {
		doc := evidence.Build(facts)
		checkConclusion(t, doc, "", evidence.OK)
		if s := find(t, doc, "placed"); s.Facts["cards"] != "untracked" || s.Facts["node"] != "n1" || s.Facts["card"] != nil || !s.At.Equal(at(3)) {
			t.Errorf("%s: placed: %+v", name, s)
		}
		if s := find(t, doc, "device"); s.Facts["cards"] != "untracked" || s.Facts["card"] != nil {
			t.Errorf("%s: device: %+v", name, s)
		}
	}
	doc := evidence.Build(f)
	if s := find(t, doc, "children"); s.Facts["deploymentUid"] != "d1" || s.Facts["replicaSetUid"] != "rs2" || s.Facts["ownerUid"] != "u1" {
		t.Errorf("children: %+v", s)
	}
	s := find(t, doc, "started")
	if _, process := s.Facts["pid"]; process || s.Facts["engineReports"] != "demo (owned by vllm)" {
		t.Errorf("started: %+v", s)
	}
	// A card that is asked for and not there yet is no fact.
	f.Status.Replicas[0].Untracked = false
	if s := find(t, evidence.Build(f), "placed"); s.Status != evidence.Pending {
		t.Errorf("a Pod that waits for its card: %+v", s)
	}
}

func unreadable(f *evidence.Facts) { f.Status, f.StatusErr = nil, errors.New("api server away") }

func grant(owner string) func(*evidence.Facts) {
	return func(f *evidence.Facts) {
		f.LiveKeys, f.Grants = 0, []budget.Grant{{Owner: owner, Model: "demo", Grantee: "team-c"}}
	}
}

func noFragment() evidence.Facts {
	return with(loadingFacts(), func(f *evidence.Facts) {
		r := &f.Status.Replicas[0]
		r.Cards, r.StartedAt, r.Reason, r.Message = nil, time.Time{}, delivery.NoFragmentFits, "largest free block 2000 MiB"
	})
}

func loadFailed() evidence.Facts {
	return with(loadingFacts(), func(f *evidence.Facts) {
		f.Status.LastFailure = &delivery.Failure{Reason: delivery.ModelLoadFailed, Message: "CUDA out of memory", Replica: "r-0", At: at(5), ExitCode: 1}
	})
}

// crashed is a model that was ready, ended and is not back yet.
func crashed(failure, now delivery.Reason) evidence.Facts {
	return with(readyFacts(), func(f *evidence.Facts) {
		f.Last, f.Endpoints = f.Status.Replicas, nil
		f.Status.Ready, f.Status.Reason = 0, now
		f.Status.Replicas = []delivery.Replica{{Name: "r-0", Phase: delivery.PhaseBackoff, Reason: now}}
		f.Status.LastFailure = &delivery.Failure{Reason: failure, Message: "segfault", Replica: "r-0", At: at(9), ExitCode: -1}
	})
}

func blocked() evidence.Facts {
	return with(releasing(servedFacts()), func(f *evidence.Facts) {
		f.Intents[1].DeliveredAt = at(21)
		f.Status.Reason, f.Status.Message = delivery.ReleaseBlocked, "process 42 does not end"
	})
}

// checkOrder holds every document to the contract's steps, in their order.
func checkOrder(t *testing.T, doc evidence.Document, f evidence.Facts) {
	t.Helper()
	want := path
	if !f.Reservation.ReleaseRequestedAt.IsZero() && !f.Reservation.ReservedAt.IsZero() {
		want = slices.Concat(path, ends)
	}
	names := make([]string, 0, len(doc.Steps))
	for i, s := range doc.Steps {
		names = append(names, s.Name)
		if s.Seq != i+1 || s.Source == "" || s.Facts == nil || s.Account == "" {
			t.Errorf("step %s: seq %d, source %q, facts %v, account %q", s.Name, s.Seq, s.Source, s.Facts, s.Account)
		}
		if s.Status == evidence.OK && s.Reason != "" {
			t.Errorf("step %s is ok and has the reason %s", s.Name, s.Reason)
		}
		if s.Status != evidence.OK && s.Reason == "" {
			t.Errorf("step %s is %s without a reason", s.Name, s.Status)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("steps %v, want %v", names, want)
	}
}

func checkConclusion(t *testing.T, doc evidence.Document, step string, status evidence.StepStatus) {
	t.Helper()
	broken := ""
	if status == evidence.Broken {
		broken = step
	}
	if doc.BrokenAt != broken {
		t.Errorf("broken at %q, want %q", doc.BrokenAt, broken)
	}
	for _, s := range doc.Steps {
		if s.Name == step && s.Status != status {
			t.Errorf("step %s is %s, want %s", step, s.Status, status)
		}
		if step == "" && s.Status != evidence.OK {
			t.Errorf("step %s is %s (%s), want ok", s.Name, s.Status, s.Reason)
		}
	}
}

func find(t *testing.T, doc evidence.Document, step string) evidence.Step {
	t.Helper()
	for _, s := range doc.Steps {
		if s.Name == step {
			return s
		}
	}
	t.Fatalf("no step %s", step)
	return evidence.Step{}
}
