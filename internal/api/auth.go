package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
)

// Names that the console and the server share.
const (
	SessionCookie = "modeldock_session"
	CSRFHeader    = "X-CSRF-Token"
)

// Principal is who asks.
type Principal struct {
	KeyID   string
	Tenant  string // empty for admin and viewer
	Role    budget.Role
	Session *budget.Session // nil when a key was sent
}

func (p Principal) admin() bool    { return p.Role == budget.RoleAdmin }
func (p Principal) readsAll() bool { return p.Role == budget.RoleAdmin || p.Role == budget.RoleViewer }

const principalKey = "principal"

func who(c *gin.Context) Principal {
	p, _ := c.Get(principalKey)
	principal, _ := p.(Principal)
	return principal
}

// public lists operations that need no credential.
var public = []string{"POST /session"}

// authenticate puts the principal into the context or answers 401.
func (s *Server) authenticate(c *gin.Context) {
	if slices.Contains(public, c.Request.Method+" "+c.FullPath()) {
		return
	}
	p, err := s.Identify(c.Request)
	if err != nil {
		c.Header("WWW-Authenticate", `Bearer realm="modeldock"`)
		s.fail(c, err)
		return
	}
	s.away.Works()
	c.Set(principalKey, p)
	if s.Known != nil {
		s.Known(c.Request.Context(), cmp.Or(p.Tenant, p.KeyID))
	}
	if c.Request.Method == http.MethodGet {
		_, _ = io.Copy(io.Discard, c.Request.Body) // a body that nobody reads would bound the answer, too: see inTime
	}
}

// Identify reads the caller from a bearer key or from a console session.
// Errors are problems with status 401, 403 for a missing CSRF token, or 400 for
// two credentials.
func (s *Server) Identify(r *http.Request) (Principal, error) {
	if n := len(r.Header.Values("Authorization")); n > 1 {
		return Principal{}, invalid("", "the request has %d Authorization headers; a proxy may take another one than ModelDock does: send one", n)
	}
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := bearer(header)
		if !ok {
			return Principal{}, unauthorised("the Authorization header must be: Bearer mdk_…")
		}
		key, err := s.keyOf(r, token)
		if err != nil {
			return Principal{}, err
		}
		return Principal{KeyID: key.ID, Tenant: key.Tenant, Role: key.Role}, nil
	}
	cookie, err := r.Cookie(SessionCookie)
	if err != nil || cookie.Value == "" {
		return Principal{}, unauthorised("no credential: send Authorization: Bearer mdk_…, or sign in to the console")
	}
	if err := sameOrigin(r); err != nil {
		return Principal{}, err
	}
	return s.bySession(r, cookie.Value)
}

// sameOrigin refuses what another site's page lets a browser do: neither a
// write with the cookie, should a browser send it, nor signing somebody in with
// a key of that site's choice. Callers that are no browsers say no origin.
func sameOrigin(r *http.Request) error {
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return forbidden("this came from the page of another site; a session is begun and used from the console alone")
	}
	return nil
}

func bearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// keyOf returns the live key that token proves.
func (s *Server) keyOf(r *http.Request, token string) (budget.APIKey, error) {
	id, secretHash, ok := budget.ParseKey(token)
	if !ok {
		return budget.APIKey{}, unauthorised("the key is not valid: it must have the form mdk_<id>_<secret>")
	}
	key, err := s.Ledger.Key(r.Context(), id)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return budget.APIKey{}, fmt.Errorf("read the key: %w", err)
	}
	// The comparison runs for unknown ids too, so that its time tells nothing.
	if match := key.Matches(secretHash); err != nil || !match {
		return budget.APIKey{}, unauthorised("the key is not valid: unknown id or wrong secret")
	}
	if !key.Live(s.Clock()) {
		return budget.APIKey{}, unauthorised("the key %s is revoked or has expired: ask an admin for a new one", key.ID)
	}
	return key, nil
}

func (s *Server) bySession(r *http.Request, id string) (Principal, error) {
	raw, err := hex.DecodeString(id)
	if err != nil {
		return Principal{}, unauthorised("the session is not valid: sign in again")
	}
	session, err := s.Ledger.Session(r.Context(), sha256.Sum256(raw))
	if errors.Is(err, budget.ErrNotFound) {
		return Principal{}, unauthorised("the session has ended: sign in again")
	}
	if err != nil {
		return Principal{}, fmt.Errorf("read the session: %w", err)
	}
	key, err := s.Ledger.Key(r.Context(), session.KeyID)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		return Principal{}, fmt.Errorf("read the session's key: %w", err)
	}
	if err != nil || !key.Live(s.Clock()) {
		return Principal{}, unauthorised("the key behind this session is revoked or has expired: sign in with another")
	}
	if !safe(r.Method) && subtle.ConstantTimeCompare([]byte(r.Header.Get(CSRFHeader)), []byte(session.CSRFToken)) != 1 {
		return Principal{}, forbidden("a write by session needs the header %s with the session's token", CSRFHeader)
	}
	return Principal{KeyID: key.ID, Tenant: key.Tenant, Role: key.Role, Session: &session}, nil
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func unauthorised(format string, args ...any) *problem {
	return &problem{http.StatusUnauthorized, codeUnauthorised, fmt.Sprintf(format, args...), ""}
}

// adminOnly answers 403 and returns false unless an admin asks.
func (s *Server) adminOnly(c *gin.Context) bool {
	if who(c).admin() {
		return true
	}
	s.fail(c, forbidden("only an admin key may %s %s", c.Request.Method, c.Request.URL.Path))
	return false
}

// ref resolves whose request id names: a tenant's own, or for an admin or
// viewer that of the tenant they name.
func (s *Server) ref(c *gin.Context, id string, tenant *string) (budget.Ref, error) {
	p := who(c)
	if !p.readsAll() {
		if tenant != nil && *tenant != "" && *tenant != p.Tenant {
			return budget.Ref{}, budget.ErrNotFound
		}
		return budget.Ref{Tenant: p.Tenant, ID: id}, nil
	}
	if tenant == nil || *tenant == "" {
		return budget.Ref{}, invalid("tenant", "say whose request it is: add ?tenant=NAME")
	}
	return budget.Ref{Tenant: *tenant, ID: id}, nil
}

// existing is ref for a part of a request: it answers the error itself where
// there is no such request.
func (s *Server) existing(c *gin.Context, id string, tenant *string) (budget.Ref, bool) {
	ref, err := s.ref(c, id, tenant)
	if err == nil {
		_, err = s.Ledger.Get(c.Request.Context(), ref)
	}
	if err != nil {
		s.fail(c, err)
	}
	return ref, err == nil
}

// writable is ref for a change: a viewer may only read.
func (s *Server) writable(c *gin.Context, id string, tenant *string) (budget.Ref, error) {
	if who(c).Role == budget.RoleViewer {
		return budget.Ref{}, forbidden("a viewer key may only read")
	}
	return s.ref(c, id, tenant)
}
