package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// ListTenants answers all tenants to those who read all, else the caller's own.
func (s handlers) ListTenants(c *gin.Context) {
	tenants, err := s.Ledger.Tenants(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.TenantList{Items: []openapi.Tenant{}}
	for _, t := range tenants {
		if p := who(c); p.readsAll() || t.Name == p.Tenant {
			out.Items = append(out.Items, tenantWire(t))
		}
	}
	c.JSON(http.StatusOK, out)
}

// GetTenant answers one tenant.
func (s handlers) GetTenant(c *gin.Context, tenant openapi.TenantPath) {
	if p := who(c); !p.readsAll() && tenant != p.Tenant {
		s.fail(c, budget.ErrNotFound)
		return
	}
	t, err := s.Ledger.Tenant(c.Request.Context(), tenant)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, tenantWire(t))
}

// PutQuota sets a tenant's cap, creating the tenant where it is new.
func (s handlers) PutQuota(c *gin.Context, tenant openapi.TenantPath) {
	limit, ok := s.readCap(c, "tenant", tenant)
	if !ok {
		return
	}
	t, err := s.Ledger.SetQuota(c.Request.Context(), tenant, limit)
	s.changed(c, tenantWire(t), err, capText(limit))
}

// PutEngines replaces a tenant's allow list of engines and source prefixes.
func (s handlers) PutEngines(c *gin.Context, tenant openapi.TenantPath) {
	s.putList(c, tenant, func(allow []string) (budget.Tenant, error) {
		return s.Ledger.SetEngines(c.Request.Context(), tenant, allow)
	})
}

// PutTenantPools replaces the pools that a tenant may submit to.
func (s handlers) PutTenantPools(c *gin.Context, tenant openapi.TenantPath) {
	s.putList(c, tenant, func(allow []string) (budget.Tenant, error) {
		return s.Ledger.SetPools(c.Request.Context(), tenant, allow)
	})
}

func (s *Server) putList(c *gin.Context, tenant string, set func([]string) (budget.Tenant, error)) {
	if !s.adminOnly(c) {
		return
	}
	var in openapi.AllowList
	if err := errors.Join(modelspec.CheckName("tenant", tenant), body(c, &in)); err != nil {
		s.fail(c, err)
		return
	}
	for _, e := range in.Allow {
		if e == "" || len(e) > 1024 {
			s.fail(c, invalid("allow", "an entry of allow must have 1 to 1024 characters"))
			return
		}
	}
	t, err := set(in.Allow)
	s.changed(c, tenantWire(t), err, "allow="+strings.Join(in.Allow, ","))
}

// ListPools answers all pools.
func (s handlers) ListPools(c *gin.Context) {
	pools, err := s.Ledger.Pools(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.PoolList{Items: []openapi.Pool{}}
	for _, p := range pools {
		out.Items = append(out.Items, poolWire(p))
	}
	c.JSON(http.StatusOK, out)
}

// PutPool sets a pool's cap, creating the pool where it is new.
func (s handlers) PutPool(c *gin.Context, pool string) {
	limit, ok := s.readCap(c, "pool", pool)
	if !ok {
		return
	}
	p, err := s.Ledger.SetPool(c.Request.Context(), pool, limit)
	s.changed(c, poolWire(p), err, capText(limit))
}

func capText(limit int64) string { return "cap=" + strconv.FormatInt(limit, 10) }

func (s *Server) readCap(c *gin.Context, kind, name string) (int64, bool) {
	if !s.adminOnly(c) {
		return 0, false
	}
	var in openapi.Cap
	err := body(c, &in)
	if err == nil {
		err = budget.CheckCap(kind, name, in.Cap)
	}
	if err != nil {
		s.fail(c, err)
		return 0, false
	}
	return in.Cap, true
}

// changed audits a change and answers it.
func (s *Server) changed(c *gin.Context, answer any, err error, details ...string) {
	s.audit(c, "", err, details...)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, answer)
}

func tenantWire(t budget.Tenant) openapi.Tenant {
	out := openapi.Tenant{Tenant: t.Name, Cap: t.Cap, Used: t.Used, Limits: limitsWire(t.Limits), Engines: t.Engines, Pools: t.Pools}
	if out.Engines == nil {
		out.Engines = []string{}
	}
	if out.Pools == nil {
		out.Pools = []string{}
	}
	return out
}

func poolWire(p budget.Pool) openapi.Pool {
	return openapi.Pool{Pool: p.Name, Cap: p.Cap, Used: p.Used}
}
