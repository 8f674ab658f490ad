package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

// SearchAudit answers who changed what, newest first.
func (s handlers) SearchAudit(c *gin.Context, params openapi.SearchAuditParams) {
	if !s.adminOnly(c) {
		return
	}
	q, err := auditQuery(params)
	if err != nil {
		s.fail(c, err)
		return
	}
	page, err := s.Ledger.SearchAudit(c.Request.Context(), q)
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.AuditList{Items: []openapi.AuditEntry{}}
	for _, e := range page.Entries {
		out.Items = append(out.Items, openapi.AuditEntry{
			Id: strconv.FormatInt(e.Seq, 10), At: wire(e.When), Actor: e.Who, Action: e.What, Result: e.Result,
			Why: some(e.Why), Tenant: some(e.Tenant), Source: some(e.Source),
		})
	}
	if page.Next > 0 {
		out.Next = strconv.FormatInt(page.Next, 10)
	}
	c.JSON(http.StatusOK, out)
}

func auditQuery(in openapi.SearchAuditParams) (q budget.AuditQuery, err error) {
	q = budget.AuditQuery{Tenant: value(in.Tenant, ""), Actor: value(in.Actor, ""), Action: value(in.Action, ""), Limit: value(in.Limit, defaultPage)}
	if q.Limit < 1 || q.Limit > maxPage {
		return q, invalid("limit", "limit must be an integer from 1 to %d; got %d", maxPage, q.Limit)
	}
	for name, text := range map[string]string{"tenant": q.Tenant, "actor": q.Actor, "action": q.Action} {
		if len(text) > auditText {
			return q, invalid(name, "no entry has a longer %s than %d bytes; got %d", name, auditText, len(text))
		}
	}
	for name, t := range map[string]struct {
		text *string
		at   *time.Time
	}{"since": {in.Since, &q.Since}, "until": {in.Until, &q.Until}} {
		if text := value(t.text, ""); text != "" {
			if *t.at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return q, invalid(name, "%s must be a time such as 2026-01-31T08:00:00Z; got %q", name, text)
			}
		}
	}
	if after := value(in.After, ""); after != "" {
		if q.Before, err = strconv.ParseInt(after, 10, 64); err != nil || q.Before < 1 {
			return q, invalid("after", "after must be the \"next\" of an earlier page")
		}
	}
	return q, nil
}
