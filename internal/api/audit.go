package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// auditText bounds what a row may carry of a request line or of an error.
const auditText = 1024

// audit records a change and its result. The change has happened or failed
// already, so an audit row that cannot be written is logged, not answered.
// What the path does not say (a body's id, a new cap) is told by details.
//
// A tenant's call that was refused changed nothing and leaves no row, nor does
// one that found everything as it asks, whoever made it: nobody fills the audit
// with nothing.
func (s *Server) audit(c *gin.Context, why string, result error, details ...string) {
	if result != nil && who(c).Role == budget.RoleTenant && s.refusedByRules(c, result) {
		return
	}
	err := s.appendAudit(c, why, result, details...)
	switch {
	case err == nil:
	case errors.Is(result, budget.ErrUnavailable):
		failed(c, s.away, err) // the change itself failed by the same, and is counted so
	default:
		s.log.Error("audit row not written", "what", c.Request.Method+" "+c.Request.URL.Path, "who", who(c).KeyID, "error", err)
	}
}

// refusedByRules reports whether err is an answer of the rules, after which
// nothing has changed; what became of any other failure is not known.
func (s *Server) refusedByRules(c *gin.Context, err error) bool {
	return !errors.Is(err, budget.ErrUnavailable) && s.problemOf(c, err).status < http.StatusInternalServerError
}

// appendAudit writes one row, also for a caller who has left.
func (s *Server) appendAudit(c *gin.Context, why string, result error, details ...string) error {
	asked := c.Request.URL.RequestURI()
	if c.FullPath() == sessionPath { // whoever signs in may have put a key anywhere
		asked = sessionPath
	}
	what := append([]string{c.Request.Method, asked}, details...)
	e := budget.AuditEntry{
		Who: actor(who(c)), What: clip(strings.Join(what, " ")),
		When: s.Clock(), Why: why, Result: "ok", Tenant: concerned(c), Source: source(c.Request),
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

// nobody is who acts without a key.
const nobody = "nobody"

func actor(p Principal) string {
	if p.KeyID == "" {
		return nobody
	}
	return string(p.Role) + " " + p.KeyID
}

// concernedKey has the tenant that only a body names.
const concernedKey = "concerned"

// concerned is whose things a call is about: the caller's own, or for others
// those of the tenant that they name.
func concerned(c *gin.Context) string {
	for _, name := range []string{who(c).Tenant, c.GetString(concernedKey), c.Query("tenant"), c.Param("tenant"), c.Param("owner")} {
		if name != "" && modelspec.CheckName("tenant", name) == nil {
			return name
		}
	}
	return ""
}

// source is where a call came from. What a proxy says of it is told beside, and
// is worth what the proxy is.
func source(r *http.Request) string {
	address := addressOf(r.RemoteAddr)
	all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if said, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1])); err == nil {
		return address + " for " + said.WithZone("").String()
	}
	return address
}

// origin is the address that a failed sign-in counts for: where a proxy on this
// machine passes it on, that of whom it speaks for. Who forges it gains little:
// what all addresses store together is bounded, too.
func origin(r *http.Request) string {
	peer, said, proxied := strings.Cut(source(r), " for ")
	if addr, err := netip.ParseAddr(peer); proxied && err == nil && addr.IsLoopback() {
		return said
	}
	return peer
}

func clip(s string) string { return clipped(s, auditText) }

// clipped is at most so many bytes of s, and says that there was more.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
