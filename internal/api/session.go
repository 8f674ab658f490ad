package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

// sessionLife is how long a console stays signed in.
const sessionLife = 12 * time.Hour

const sessionPath = "/session"

// CreateSession signs the console in with a key, which is not kept.
func (s handlers) CreateSession(c *gin.Context) {
	if err := sameOrigin(c.Request); err != nil {
		s.fail(c, err)
		return
	}
	var in openapi.NewSession
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	key, err := s.keyOf(c.Request, in.Key)
	if err != nil {
		s.auditFailedSignIn(c, in.Key, err)
		s.fail(c, err)
		return
	}
	signedIn := Principal{KeyID: key.ID, Tenant: key.Tenant, Role: key.Role}
	c.Set(principalKey, signedIn)
	id, csrf := random(), random()
	now := s.Clock()
	session := budget.Session{IDHash: sha256.Sum256(id), KeyID: key.ID, CSRFToken: hex.EncodeToString(csrf), CreatedAt: now, ExpiresAt: now.Add(sessionLife)}
	if !key.ExpiresAt.IsZero() && key.ExpiresAt.Before(session.ExpiresAt) {
		session.ExpiresAt = key.ExpiresAt
	}
	err = s.Ledger.CreateSession(c.Request.Context(), session)
	s.auditSession(c, err)
	if err != nil {
		s.fail(c, err)
		return
	}
	signedIn.Session = &session
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // Secure follows how the browser came: on loopback there is no TLS
		Name: SessionCookie, Value: hex.EncodeToString(id), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: encrypted(c.Request), MaxAge: int(session.ExpiresAt.Sub(now).Seconds()),
	})
	c.JSON(http.StatusOK, sessionWire(signedIn))
}

// GetSession answers who is signed in.
func (s handlers) GetSession(c *gin.Context) {
	p := who(c)
	if p.Session == nil {
		s.fail(c, unauthorised("no session: sign in with POST /session"))
		return
	}
	c.JSON(http.StatusOK, sessionWire(p))
}

// DeleteSession signs the console out.
func (s handlers) DeleteSession(c *gin.Context) {
	if p := who(c); p.Session != nil {
		err := s.Ledger.DeleteSession(c.Request.Context(), p.Session.IDHash)
		s.auditSession(c, err)
		if err != nil {
			s.fail(c, err)
			return
		}
	}
	http.SetCookie(c.Writer, &http.Cookie{Name: SessionCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1}) //nolint:gosec // it carries nothing and ends the cookie
	c.Status(http.StatusNoContent)
}

// auditSession remembers that somebody signed in or out.
func (s *Server) auditSession(c *gin.Context, result error) {
	s.sumUp(c)
	if s.signIns.pass(who(c).KeyID) {
		s.audit(c, "", result)
	}
}

// auditFailedSignIn remembers who did not get in: the key's id if there is such
// a key, never what was sent.
func (s *Server) auditFailedSignIn(c *gin.Context, sent string, result error) {
	s.sumUp(c)
	if problemStatus(result) != http.StatusUnauthorized || !s.signIns.fail(origin(c.Request)) {
		return // nothing was decided about the caller, or as much was as is stored
	}
	var details []string
	if id, _, ok := budget.ParseKey(sent); ok {
		if key, err := s.Ledger.Key(c.Request.Context(), id); err == nil {
			details = append(details, "with key "+key.ID)
			c.Set(concernedKey, key.Tenant)
		}
	}
	s.audit(c, "", result, details...)
}

func (s *Server) sumUp(c *gin.Context) {
	if err := s.SumUpSignIns(context.WithoutCancel(c.Request.Context()), false); err != nil {
		s.log.Error("audit row not written", "error", err)
	}
}

func sessionWire(p Principal) openapi.Session {
	return openapi.Session{Tenant: some(p.Tenant), Role: openapi.Role(p.Role), CsrfToken: p.Session.CSRFToken, ExpiresAt: wire(p.Session.ExpiresAt)}
}

// encrypted reports whether the browser came by TLS, to this process or to a
// proxy before it. Whoever says so wrongly makes only their own cookie useless.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func random() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
}
