package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/strictjson"
)

// Codes of errors, for programs.
const (
	codeInvalid        = "invalid_request"
	codeUnauthorised   = "unauthorised"
	codeForbidden      = "forbidden"
	codeNotFound       = "not_found"
	codeMethod         = "method_not_allowed"
	codeConflict       = "conflict"
	codeModelInUse     = "model_in_use"
	codeStale          = "stale_generation"
	codeBudgetBlocked  = "budget_blocked"
	codeFinal          = "final_state"
	codeReleasing      = "release_requested"
	codeTooLarge       = "body_too_large"
	codeTooSlow        = "body_too_slow"
	codeTooMany        = "too_many_stored"
	codeTooManyCalls   = "too_many_requests"
	codeTooManyStreams = "too_many_streams"
	codeUnavailable    = "unavailable"
	codeInternal       = "internal"
)

// errorText bounds an error's words: most repeat what the caller said, who may
// have said a great deal.
const errorText = 4096

// problem is an error with its HTTP face.
type problem struct {
	status  int
	code    string
	message string
	field   string
}

func (p *problem) Error() string { return p.message }

func invalid(field, format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, codeInvalid, fmt.Sprintf(format, args...), field}
}

func forbidden(format string, args ...any) *problem {
	return &problem{http.StatusForbidden, codeForbidden, fmt.Sprintf(format, args...), ""}
}

func notFound(format string, args ...any) *problem {
	return &problem{http.StatusNotFound, codeNotFound, fmt.Sprintf(format, args...), ""}
}

// badParameter names the parameter that the generated router could not read;
// its own words are about Go.
func badParameter(c *gin.Context, status int, err error) *problem {
	_, rest, _ := strings.Cut(err.Error(), "parameter ")
	name, _, _ := strings.Cut(rest, ":")
	return &problem{status, codeInvalid, fmt.Sprintf("%s=%q is not a valid value; api/openapi.yaml says what it takes", name, c.Query(name)), name}
}

// fail answers err in the one error shape.
func (s *Server) fail(c *gin.Context, err error) {
	p := s.problemOf(c, err)
	if p.status == http.StatusServiceUnavailable || p.status == http.StatusTooManyRequests {
		c.Header("Retry-After", "1")
	}
	body := openapi.Error{Error: openapi.ErrorBody{Code: p.code, Message: clipped(p.message, errorText)}}
	if p.field != "" {
		field := clipped(p.field, auditText)
		body.Error.Field = &field
	}
	c.AbortWithStatusJSON(p.status, body)
}

func (s *Server) problemOf(c *gin.Context, err error) *problem {
	var (
		p        *problem
		field    *modelspec.FieldError
		strict   *strictjson.Error
		conflict *budget.ConflictError
		inUse    *budget.ModelInUseError
		pool     *budget.UnknownPoolError
		stale    *budget.StaleGenerationError
		blocked  *budget.BlockedError
		size     *http.MaxBytesError
		many     *budget.BoundError
		declined *budget.DeclinedError
		now      Conflict
		full     *budget.NotEmptyError
		refused  *budget.CopyRefusedError
		notCopy  *backup.MalformedError
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &field):
		return &problem{http.StatusBadRequest, codeInvalid, field.Message, field.Field}
	case errors.As(err, &strict):
		return &problem{http.StatusBadRequest, codeInvalid, strict.Message, strict.Field}
	case errors.As(err, &conflict):
		return &problem{http.StatusConflict, codeConflict, conflict.Error(), conflict.Field}
	case errors.As(err, &inUse):
		return &problem{http.StatusConflict, codeModelInUse, inUse.Error(), "model.name"}
	case errors.As(err, &pool):
		return &problem{http.StatusBadRequest, codeInvalid, pool.Error(), "pool"}
	case errors.As(err, &stale):
		return &problem{http.StatusConflict, codeStale, stale.Error(), "generation"}
	case errors.As(err, &blocked):
		return &problem{http.StatusConflict, codeBudgetBlocked, blocked.Error(), "replicas.min"}
	case errors.As(err, &size):
		return &problem{http.StatusRequestEntityTooLarge, codeTooLarge, fmt.Sprintf("the body is larger than %d bytes", size.Limit), ""}
	case errors.As(err, &many):
		return &problem{http.StatusTooManyRequests, codeTooMany, many.Error(), ""}
	case errors.As(err, &declined):
		return &problem{http.StatusConflict, codeConflict, declined.Error(), "grantee"}
	case errors.As(err, &now):
		return &problem{http.StatusConflict, codeConflict, now.Error(), ""}
	case errors.As(err, &full):
		return &problem{http.StatusConflict, codeConflict, full.Error(), ""}
	case errors.As(err, &refused):
		return &problem{http.StatusBadRequest, codeInvalid, refused.Error(), ""}
	case errors.As(err, &notCopy):
		return &problem{http.StatusBadRequest, codeInvalid, notCopy.Error(), ""}
	case errors.Is(err, budget.ErrNotFound):
		return notFound("no such %s", subjectOf(c))
	case errors.Is(err, budget.ErrFinal):
		return &problem{http.StatusConflict, codeFinal, err.Error(), ""}
	case errors.Is(err, budget.ErrReleaseRequested):
		return &problem{http.StatusConflict, codeReleasing, err.Error(), ""}
	case errors.Is(err, budget.ErrNotReleasable):
		return &problem{http.StatusConflict, codeConflict, err.Error(), ""}
	case cutOff(c):
		return &problem{http.StatusServiceUnavailable, codeUnavailable, "this process stops and has ended the call before its answer; send it again, the same request may be sent safely", ""}
	case ofCaller(c, err):
		return &problem{http.StatusServiceUnavailable, codeUnavailable, "the caller left before the answer", ""}
	case errors.Is(err, scaler.ErrUnread):
		failed(c, s.unread, err)
		return &problem{http.StatusServiceUnavailable, codeUnavailable, "what runs cannot be read right now; ask again in a moment", ""}
	case errors.Is(err, budget.ErrUnavailable):
		failed(c, s.away, err)
		return &problem{http.StatusServiceUnavailable, codeUnavailable, "the ledger cannot answer right now; the same request may be sent again safely", ""}
	default:
		s.log.Error("request failed", "method", c.Request.Method, "path", c.FullPath(), "error", err)
		return &problem{http.StatusInternalServerError, codeInternal, "an internal error occurred; the log of the controller has the details", ""}
	}
}

// cutOff tells that the call ends because the server does: a caller who leaves
// is no other cause than the context's own.
func cutOff(c *gin.Context) bool {
	ctx := c.Request.Context()
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), context.Canceled)
}

// failed counts a call that an outage refuses; one whose caller has left says
// nothing about anything.
func failed(c *gin.Context, by *outage.Log, err error) {
	if c.Request.Context().Err() == nil {
		by.Failed(err, "method", c.Request.Method, "path", c.FullPath())
	}
}

// ofCaller tells that a call ends because its caller has left, which is no
// outage and worth no line: whoever can connect could write the log full.
func ofCaller(c *gin.Context, err error) bool {
	ctx := c.Request.Context()
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled) &&
		(errors.Is(err, context.Canceled) || errors.Is(err, budget.ErrUnavailable) || errors.Is(err, scaler.ErrUnread))
}

// subjectOf names what a path's id stands for, for "no such …".
func subjectOf(c *gin.Context) string {
	if id := c.Param("id"); id != "" {
		return fmt.Sprintf("request %q", id)
	}
	for _, param := range []string{"requestId", "tenant", "pool", "keyId", "name"} {
		if v := c.Param(param); v != "" {
			return fmt.Sprintf("%s %q", map[string]string{"requestId": "trace", "tenant": "tenant", "pool": "pool", "keyId": "key", "name": "model"}[param], v)
		}
	}
	return "resource"
}

// recoverPanics turns a panic into the one error shape.
func (s *Server) recoverPanics(c *gin.Context) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(r)
			}
			s.log.Error("panic in a handler", "path", c.FullPath(), "panic", r, slog.Any("stack", stack()))
			if c.Writer.Written() {
				panic(http.ErrAbortHandler) // half an answer is out: cut it, so that nobody takes it for a whole one
			}
			s.fail(c, &problem{http.StatusInternalServerError, codeInternal, "an internal error occurred; the log of the controller has the details", ""})
		}
	}()
	c.Next()
}
