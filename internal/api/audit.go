package api

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
)

// audit records a change and its result. The change has happened or failed
// already, so an audit row that cannot be written is logged, not answered.
func (s *Server) audit(c *gin.Context, why string, result error) {
	p := who(c)
	e := budget.AuditEntry{
		Who: string(p.Role) + " " + p.KeyID, What: c.Request.Method + " " + c.Request.URL.RequestURI(),
		When: s.Clock(), Why: why, Result: "ok",
	}
	if result != nil {
		e.Result = result.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), 10*time.Second)
	defer cancel()
	if err := s.Ledger.AppendAudit(ctx, e); err != nil {
		s.log.Error("audit row not written", "what", e.What, "who", e.Who, "error", err)
	}
}
