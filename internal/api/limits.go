package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

// PutLimits replaces a tenant's limits.
func (s handlers) PutLimits(c *gin.Context, tenant openapi.TenantPath) {
	if !s.adminOnly(c) {
		return
	}
	var in openapi.Limits
	err := body(c, &in)
	var limits budget.Limits
	if err == nil {
		limits, err = limitsOf(in)
	}
	if err = errors.Join(err, budget.CheckLimits(tenant, limits)); err != nil {
		s.fail(c, err)
		return
	}
	t, err := s.Ledger.SetLimits(c.Request.Context(), tenant, limits)
	s.changed(c, tenantWire(t), err, limitsAudit(limits))
}

// limitsOf reads what was sent. Zero is refused: it could be taken for "none
// at all" as well as for "no limit".
func limitsOf(in openapi.Limits) (budget.Limits, error) {
	out := budget.Limits{MaxPriority: in.MaxPriority, MaxClass: budget.WaitClass(value(in.MaxClass, ""))}
	all, err := ratesOf("", openapi.Rates{
		RequestsPerMinute: in.RequestsPerMinute, TokensPerMinute: in.TokensPerMinute, Concurrency: in.Concurrency, TokensPerDay: in.TokensPerDay,
	})
	if err != nil {
		return out, err
	}
	out.RequestsPerMinute, out.TokensPerMinute, out.Concurrency, out.TokensPerDay = all.RequestsPerMinute, all.TokensPerMinute, all.Concurrency, all.TokensPerDay
	if in.PerKey != nil {
		each, err := ratesOf("perKey.", *in.PerKey)
		if err != nil {
			return out, err
		}
		out.PerKey = &each
	}
	out.WindowSeconds, err = figure("windowSeconds", in.WindowSeconds)
	return out, err
}

func ratesOf(under string, in openapi.Rates) (out budget.Rates, err error) {
	for _, f := range []struct {
		field string
		given *int64
		into  *int64
	}{
		{"requestsPerMinute", in.RequestsPerMinute, &out.RequestsPerMinute},
		{"tokensPerMinute", in.TokensPerMinute, &out.TokensPerMinute},
		{"concurrency", in.Concurrency, &out.Concurrency},
		{"tokensPerDay", in.TokensPerDay, &out.TokensPerDay},
	} {
		if *f.into, err = figure(under+f.field, f.given); err != nil {
			return out, err
		}
	}
	return out, nil
}

func figure(field string, given *int64) (int64, error) {
	if given != nil && *given == 0 {
		return 0, invalid(field, "%s must be at least 1; leave it out for no limit", field)
	}
	return value(given, 0), nil
}

func limitsAudit(l budget.Limits) string {
	text, err := json.Marshal(l)
	if err != nil {
		return "limits that cannot be shown"
	}
	return "limits=" + string(text)
}

func limitsWire(l budget.Limits) openapi.Limits {
	out := openapi.Limits{
		RequestsPerMinute: some(l.RequestsPerMinute), TokensPerMinute: some(l.TokensPerMinute), Concurrency: some(l.Concurrency), TokensPerDay: some(l.TokensPerDay),
		WindowSeconds: some(l.WindowSeconds), MaxPriority: l.MaxPriority, MaxClass: some(openapi.LimitsMaxClass(l.MaxClass)),
	}
	if r := l.PerKey; r != nil {
		out.PerKey = &openapi.Rates{
			RequestsPerMinute: some(r.RequestsPerMinute), TokensPerMinute: some(r.TokensPerMinute), Concurrency: some(r.Concurrency), TokensPerDay: some(r.TokensPerDay),
		}
	}
	return out
}

// checkPriority refuses a priority above the one that the tenant may ask for.
func checkPriority(t budget.Tenant, priority int) error {
	most := t.Limits.MaxPriority
	if most == nil || priority <= *most {
		return nil
	}
	return &problem{
		http.StatusForbidden, "priority_not_allowed",
		fmt.Sprintf("tenant %s may ask for a priority of at most %d, and this is %d; an admin can raise maxPriority with PUT /tenants/%s/limits", t.Name, *most, priority, t.Name),
		"priority",
	}
}
