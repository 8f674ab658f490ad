package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
)

// VerifyLedger recomputes every invariant from the rows.
func (s handlers) VerifyLedger(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	rep, err := s.Ledger.Verify(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.VerifyReport{
		Clean: rep.Clean(), At: wire(rep.At), Tenants: rep.Tenants, Pools: rep.Pools,
		Reservations: rep.Reservations, JournalEntries: rep.Entries, Violations: []openapi.Violation{},
	}
	out.Older = some(s.older())
	for _, v := range rep.Violations {
		out.Violations = append(out.Violations, openapi.Violation{Invariant: v.Invariant, Subject: v.Subject, Message: v.Message})
	}
	c.JSON(http.StatusOK, out)
}

// Step runs one round of a loop under --manual.
func (s handlers) Step(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	if s.Stepper == nil {
		s.fail(c, &problem{http.StatusConflict, "not_manual", "the loops run by themselves; start with --manual to step them", ""})
		return
	}
	var in openapi.Step
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	count := value(in.Count, 1)
	switch {
	case !in.What.Valid():
		s.fail(c, invalid("what", "what must be one of admit, deliver, reconcile, release; got %q", in.What))
		return
	case count < 1 || count > maxPage:
		s.fail(c, invalid("count", "count must be an integer from 1 to %d; got %d", maxPage, count))
		return
	case in.CrashBefore != nil && !in.CrashBefore.Valid():
		s.fail(c, invalid("crashBefore", "crashBefore must be one of create, ack, credit; got %q", *in.CrashBefore))
		return
	}
	done, err := s.Stepper.Step(c.Request.Context(), string(in.What), count, string(value(in.CrashBefore, "")))
	s.audit(c, "", err)
	if err != nil {
		s.fail(c, err)
		return
	}
	if done == nil {
		done = []openapi.StepDone{}
	}
	c.JSON(http.StatusOK, openapi.StepResult{What: string(in.What), Done: done})
}

// GetDiagnostics answers the health of every part.
func (s handlers) GetDiagnostics(c *gin.Context) {
	if !who(c).readsAll() {
		s.fail(c, forbidden("only an admin or viewer key may read the diagnostics"))
		return
	}
	c.JSON(http.StatusOK, openapi.Diagnostics{Parts: s.Diagnostics(c.Request.Context())})
}
