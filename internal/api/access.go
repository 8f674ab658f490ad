package api

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// ListKeys answers every key without its secret.
func (s handlers) ListKeys(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	keys, err := s.Ledger.Keys(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.KeyList{Items: []openapi.Key{}}
	for _, k := range keys {
		out.Items = append(out.Items, openapi.Key{
			Id: k.ID, Tenant: some(k.Tenant), Role: openapi.Role(k.Role), CreatedAt: wire(k.CreatedAt),
			ExpiresAt: wiretime.Pointer(k.ExpiresAt), RevokedAt: wiretime.Pointer(k.RevokedAt), LastUsedAt: wiretime.Pointer(k.LastUsedAt),
		})
	}
	c.JSON(http.StatusOK, out)
}

// CreateKey mints a key; its secret is in this one answer.
func (s handlers) CreateKey(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	var in openapi.NewKey
	err := body(c, &in)
	if err == nil {
		err = checkNewKey(in)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	text, key := budget.MintKey(budget.Role(in.Role), value(in.Tenant, ""), s.Clock(), time.Duration(value(in.ExpiresInSeconds, 0))*time.Second)
	err = s.Ledger.CreateKey(c.Request.Context(), key)
	c.Set(concernedKey, key.Tenant)
	s.audit(c, "", err, strings.Join([]string{key.ID, string(key.Role), key.Tenant}, " "))
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusCreated, openapi.CreatedKey{Id: key.ID, Key: text, Tenant: some(key.Tenant), Role: in.Role, ExpiresAt: wiretime.Pointer(key.ExpiresAt)})
}

func checkNewKey(in openapi.NewKey) error {
	const maxSeconds = int64(budget.MaxKeyLife / time.Second)
	switch {
	case !in.Role.Valid():
		return invalid("role", "role must be one of tenant, viewer, admin; got %q", in.Role)
	case in.Role == openapi.RoleTenant && in.Tenant == nil:
		return invalid("tenant", "a key of role tenant needs the tenant's name")
	case in.Role != openapi.RoleTenant && in.Tenant != nil:
		return invalid("tenant", "a key of role %s belongs to no tenant; leave tenant out", in.Role)
	case in.ExpiresInSeconds != nil && (*in.ExpiresInSeconds < 1 || *in.ExpiresInSeconds > maxSeconds):
		return invalid("expiresInSeconds", "expiresInSeconds must be an integer from 1 to %d; got %d", maxSeconds, *in.ExpiresInSeconds)
	case in.Tenant != nil:
		return modelspec.CheckName("tenant", *in.Tenant)
	}
	return nil
}

// RevokeKey ends a key; it is idempotent.
func (s handlers) RevokeKey(c *gin.Context, keyID string) {
	if !s.adminOnly(c) {
		return
	}
	err := s.Ledger.RevokeKey(c.Request.Context(), keyID)
	if key, unread := s.Ledger.Key(c.Request.Context(), keyID); unread == nil {
		c.Set(concernedKey, key.Tenant)
	}
	s.audit(c, "", err)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// ListGrants answers the grants that concern the caller.
func (s handlers) ListGrants(c *gin.Context) {
	grants, err := s.Ledger.Grants(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.GrantList{Items: []openapi.Grant{}}
	for _, g := range grants {
		if p := who(c); p.readsAll() || g.Owner == p.Tenant || g.Grantee == p.Tenant {
			out.Items = append(out.Items, grantWire(g))
		}
	}
	c.JSON(http.StatusOK, out)
}

// PutGrant lets grantee call owner's model.
func (s handlers) PutGrant(c *gin.Context, owner, model, grantee string) {
	if !s.ownerOrAdmin(c, owner) {
		return
	}
	err := cmp.Or(modelspec.CheckName("owner", owner), modelspec.CheckName("model", model), modelspec.CheckName("grantee", grantee))
	if err != nil {
		s.fail(c, err)
		return
	}
	g := budget.Grant{Owner: owner, Model: model, Grantee: grantee, At: s.Clock()}
	moved := false
	if err = s.stored.grant(c.Request.Context(), owner); err == nil {
		moved, err = s.Ledger.PutGrant(c.Request.Context(), g, who(c).admin())
	}
	if err == nil && !moved {
		c.JSON(http.StatusOK, grantWire(g))
		return
	}
	s.changed(c, grantWire(g), err)
}

// DeleteGrant takes a grant back; it is idempotent. Who was granted something
// can decline it, for good: a grant that nobody asked for makes a name ambiguous.
func (s handlers) DeleteGrant(c *gin.Context, owner, model, grantee string) {
	declined := who(c).Role == budget.RoleTenant && who(c).Tenant == grantee
	if !declined && !s.ownerOrAdmin(c, owner) {
		return
	}
	err := cmp.Or(modelspec.CheckName("owner", owner), modelspec.CheckName("model", model), modelspec.CheckName("grantee", grantee))
	if err != nil {
		s.fail(c, err)
		return
	}
	moved, err := s.Ledger.DeleteGrant(c.Request.Context(), owner, model, grantee, declined)
	if moved || err != nil {
		s.audit(c, "", err)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

func (s *Server) ownerOrAdmin(c *gin.Context, owner string) bool {
	if p := who(c); p.admin() || (p.Role == budget.RoleTenant && p.Tenant == owner) {
		return true
	}
	s.fail(c, forbidden("only the owner %s or an admin may change grants of its models", owner))
	return false
}

func grantWire(g budget.Grant) openapi.Grant {
	return openapi.Grant{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee, At: wire(g.At)}
}
