package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"modeldock.io/internal/traffic"
)

// known returns the decisions' base, or says that none has arrived yet.
func (g *Gateway) known() (*index, error) {
	snapshot := g.cfg.Snapshot()
	if snapshot == nil {
		return nil, &failure{
			status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "no_snapshot", outcome: traffic.UpstreamError,
			message:    "the gateway has not yet received keys and models from the controller; try again in a few seconds",
			retryAfter: 2 * time.Second, silent: true,
		}
	}
	if i := g.index.Load(); i != nil && i.snapshot == snapshot {
		return i, nil
	}
	i := newIndex(snapshot)
	if before := g.index.Swap(i); before != nil {
		g.forgetLimits(before.snapshot, snapshot)
	}
	return i, nil
}

// decide runs f on the latest snapshot and, where that refuses, once more on
// one that is newer than the request.
func (g *Gateway) decide(x *exchange, f func(view *index) error) error {
	view, err := g.known()
	if err != nil {
		return err
	}
	if err = f(view); err == nil || g.cfg.Refresh == nil || !view.snapshot.At.Before(x.rec.ReceivedAt) {
		return err
	}
	if stale := g.cfg.Refresh(x.r.Context(), x.rec.ReceivedAt); stale != nil {
		return g.unsure(x, view.snapshot, err, stale)
	}
	if view, err = g.known(); err != nil {
		return err
	}
	return f(view)
}

// unsure is the refusal by what is known while nobody says whether it is still
// true. A model may have been added since: that it does not exist would be a
// claim. A key stays refused, because whoever guesses one must not be told more.
func (g *Gateway) unsure(x *exchange, snapshot *traffic.Snapshot, refused, stale error) error {
	g.cfg.Logger.Debug("a caller is refused by an old snapshot", "request_id", x.rec.RequestID, "taken", snapshot.At, "refusal", refused, "error", stale)
	var f *failure
	if !errors.As(refused, &f) || f.status != http.StatusNotFound {
		return refused
	}
	return &failure{
		status: http.StatusServiceUnavailable, kind: typeOverloaded, code: "model_unknown", param: "model", outcome: traffic.NotFound,
		message:    fmt.Sprintf("this gateway does not know the model yet, and the controller does not answer; what is known is %s old; try again in a few seconds", x.rec.ReceivedAt.Sub(snapshot.At).Round(time.Second)),
		retryAfter: 2 * time.Second,
	}
}

// ErrNobody is Config.Principal's answer to a request without a credential
// that it knows of.
var ErrNobody = errors.New("the request names nobody")

// Refusal is Config.Principal's answer to a credential that it knows of and
// that does not suffice. It reaches the caller as it is.
type Refusal struct {
	Status  int    // 401, 403, or 503 if it cannot be told right now
	Code    string // for programs
	Message string // what is wrong and what to do
}

func (r *Refusal) Error() string { return r.Message }

// refused is the answer to a caller whom Config.Principal does not let in.
// What is no Refusal stays an internal error, which is logged.
func refused(err error) error {
	var r *Refusal
	if !errors.As(err, &r) {
		return fmt.Errorf("find out who calls: %w", err)
	}
	f := &failure{status: r.Status, kind: typeAuth, code: r.Code, message: r.Message, outcome: traffic.Forbidden, silent: true}
	switch r.Status {
	case http.StatusForbidden:
		f.kind = typePermission
	case http.StatusServiceUnavailable:
		f.kind, f.outcome, f.retryAfter = typeOverloaded, traffic.UpstreamError, 2*time.Second
	}
	return f
}

// keyPrefix begins every key of this product.
const keyPrefix = "mdk_"

// authenticate finds the caller by the key in the Authorization header; only
// who brings none is looked for by Config.Principal.
func (g *Gateway) authenticate(view *index, r *http.Request) (*traffic.Key, error) {
	if len(r.Header["Authorization"]) > 1 {
		return nil, &failure{
			status: http.StatusBadRequest, kind: typeRequest, code: "invalid_request", outcome: traffic.Forbidden, silent: true,
			message: "the request has more than one Authorization header, and a proxy may take another one than this gateway does; send one",
		}
	}
	token, given := bearer(r.Header.Get("Authorization"))
	if g.cfg.Principal != nil && !strings.HasPrefix(token, keyPrefix) {
		key, err := g.cfg.Principal(r)
		if err == nil {
			return &key, nil
		}
		if !errors.Is(err, ErrNobody) {
			return nil, refused(err)
		}
	}
	if !given {
		return nil, unauthorised("missing_api_key",
			"no API key was sent; send it as \"Authorization: Bearer mdk_…\"")
	}
	id, secret, wellFormed := splitKey(token)
	hash := sha256.Sum256([]byte(secret))
	key, known := view.snapshot.Keys[id]
	match := subtle.ConstantTimeCompare(hash[:], key.SecretHash[:]) == 1
	if !wellFormed || !known || !match {
		return nil, unauthorised("invalid_api_key",
			"the API key is unknown or was revoked; ask an administrator for a new one")
	}
	if !key.ExpiresAt.IsZero() && !g.cfg.Clock().Before(key.ExpiresAt) {
		return nil, unauthorised("expired_api_key",
			"the API key has expired at "+key.ExpiresAt.UTC().Format(time.RFC3339)+"; ask an administrator for a new one")
	}
	return &key, nil
}

// stillOpens refuses a key that was good when its request came and is not any
// more. Whoever came by Config.Principal has such a key, too.
func (g *Gateway) stillOpens(view *index, key *traffic.Key) error {
	latest, known := view.snapshot.Keys[key.ID]
	f := &failure{status: http.StatusUnauthorized, kind: typeAuth, outcome: traffic.Forbidden}
	switch {
	case !known || latest.SecretHash != key.SecretHash || latest.Tenant != key.Tenant || latest.Admin != key.Admin:
		f.code = "invalid_api_key"
		f.message = "the API key was revoked while its request was on its way; the request was not sent to a model, ask an administrator for a new key"
	case !latest.ExpiresAt.IsZero() && !g.cfg.Clock().Before(latest.ExpiresAt):
		f.code = "expired_api_key"
		f.message = "the API key expired at " + latest.ExpiresAt.UTC().Format(time.RFC3339) +
			", while its request was on its way; the request was not sent to a model, ask an administrator for a new key"
	default:
		return nil
	}
	return f
}

// stillMay says the same before a request is sent, and that the model may
// still be used: the caller may have waited for minutes.
func (g *Gateway) stillMay(key *traffic.Key, m *traffic.Model, written string) error {
	view, err := g.known()
	if err == nil {
		err = g.stillOpens(view, key)
	}
	if err == nil && !key.Admin && key.Tenant != m.Owner && !view.mayUse(m.Owner, m.Name, key.Tenant) {
		err = modelNotFound(written)
	}
	return err
}

// bearer returns the token of an Authorization header.
func bearer(header string) (string, bool) {
	const scheme = "Bearer "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false
	}
	return strings.TrimSpace(header[len(scheme):]), true
}

// splitKey takes mdk_<id>_<secret> apart; the id has no underscore.
func splitKey(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, keyPrefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && id != "" && secret != ""
}

// unauthorised leaves no evidence record: strangers must not be able to crowd
// out the records of tenants. The metrics count them.
func unauthorised(code, message string) error {
	return &failure{
		status: http.StatusUnauthorized, kind: typeAuth, code: code, message: message,
		outcome: traffic.Forbidden, silent: true,
	}
}
