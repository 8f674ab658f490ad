package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
)

// auditText bounds what a row may carry of a request line or of an error.
const auditText = 1024

// audit records a change and its result. The change has happened or failed
// already, so an audit row that cannot be written is logged, not answered.
// What the path does not say (a body's id, a new cap) is told by details.
func (s *Server) audit(c *gin.Context, why string, result error, details ...string) {
	if err := s.appendAudit(c, why, result, details...); err != nil {
		s.log.Error("audit row not written", "what", c.Request.Method+" "+c.Request.URL.Path, "who", who(c).KeyID, "error", err)
	}
}

// appendAudit writes one row, also for a caller who has left.
func (s *Server) appendAudit(c *gin.Context, why string, result error, details ...string) error {
	p := who(c)
	what := append([]string{c.Request.Method, c.Request.URL.RequestURI()}, details...)
	e := budget.AuditEntry{
		Who: string(p.Role) + " " + p.KeyID, What: clip(strings.Join(what, " ")),
		When: s.Clock(), Why: why, Result: "ok",
	}
	if result != nil {
		e.Result = clip(result.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), 10*time.Second)
	defer cancel()
	if err := s.Ledger.AppendAudit(ctx, e); err != nil {
		return fmt.Errorf("write the audit row: %w", err)
	}
	return nil
}

func clip(s string) string { return clipped(s, auditText) }

// clipped is at most so many bytes of s, and says that there was more.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
