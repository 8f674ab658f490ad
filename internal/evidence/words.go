package evidence

import (
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/traffic"
)

// message tells a step's state in one English sentence with its figures.
func (f Facts) message(s Step) string {
	if s.Name == StepReserved && f.Standing != nil {
		return f.Standing.Message
	}
	subject := fmt.Sprintf("step %s of request %s/%s", s.Name, f.Reservation.Tenant, f.Reservation.ID)
	switch {
	case s.Expected != "" && s.Found != "":
		return fmt.Sprintf("%s: expected %s; found %s", subject, s.Expected, s.Found)
	case s.Found != "":
		return fmt.Sprintf("%s: %s", subject, s.Found)
	case f.Status != nil && f.Status.Message != "" && s.Account == Delivery:
		return f.Status.Message
	case s.Reason == string(delivery.ScaledToZero):
		return fmt.Sprintf("model %s@%s sleeps: nobody calls it, and the next call wakes it", f.Reservation.Model.Name, f.Reservation.Model.Version)
	case s.Reason == ReasonNotCalled && f.Reservation.State.Final():
		return fmt.Sprintf("model %s@%s ended without having been called", f.Reservation.Model.Name, f.Reservation.Model.Version)
	case s.Reason == ReasonNotCalled:
		return fmt.Sprintf("model %s@%s has not been called yet", f.Reservation.Model.Name, f.Reservation.Model.Version)
	default:
		return fmt.Sprintf("%s is %s (%s)", subject, s.Status, s.Reason)
	}
}

const (
	callTheModel   = "CallTheModel"
	readEngineLogs = "ReadEngineLogs"
)

// nextAction maps a reason to the code of what a person can do about it;
// clients put it into words.
func nextAction(reason string) string {
	switch reason {
	case string(budget.QuotaBlocked):
		return "ReleaseOwnRequestOrRaiseQuota"
	case string(budget.PoolBlocked), string(budget.QueuedBehind):
		return "WaitForPoolOrRaiseCap"
	case string(budget.ExceedsQuota):
		return "RaiseQuotaOrLowerCost"
	case string(budget.ExceedsPool):
		return "RaisePoolCapOrLowerCost"
	case ReasonExpired, string(budget.TTLElapsed), ReasonCancelled, ReasonReleasedBeforeReady, string(delivery.DeletedByHand), string(delivery.Unplaceable):
		return "SubmitAgainUnderNewID"
	case string(delivery.NameTaken), string(delivery.NotOwned), ReasonOwnershipConflict:
		return "RemoveForeignObject"
	case string(delivery.NoFragmentFits):
		return "FreeCardMemoryOrAskForLess"
	case string(delivery.WaitingForNode):
		return "FreeOrAddANode"
	case string(delivery.ReplicaFailure):
		return "AllowThePods"
	case ReasonNotRoutable:
		return "CheckTheEndpoints"
	case string(delivery.ImagePullFailed):
		return "CheckTheImage"
	case string(delivery.ModelLoadFailed), string(delivery.CrashLooping), string(delivery.ProgressDeadlineExceeded), ReasonNotReady:
		return readEngineLogs
	case ReasonNotCalled, ReasonNoContent, string(delivery.ScaledToZero), string(traffic.ClientCancelled), string(traffic.ExpiredWaiting), string(traffic.RejectedFull), string(traffic.RejectedLimit):
		return callTheModel
	case ReasonNoLiveKey:
		return "CreateKeyOrGrant"
	case ReasonJournalMismatch:
		return "RunLedgerVerify"
	case ReasonLost, string(delivery.ReleaseBlocked), string(delivery.PortTaken):
		return "CheckTheNode"
	case string(traffic.UpstreamCut), string(traffic.UpstreamError):
		return readEngineLogs
	default:
		return "Wait"
	}
}
