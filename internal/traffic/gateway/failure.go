package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// The types of OpenAI's error object that are used here.
const (
	typeRequest    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeRateLimit  = "rate_limit_error"
	typeOverloaded = "service_unavailable_error"
	typeServer     = "server_error"
)

var (
	errNoModel    = errors.New(`the member "model" is missing; name a model, GET /v1/models lists yours`)
	errNoMessages = errors.New(`"messages" must be an array with at least one message`)
	errBackground = errors.New(`"background" cannot be true: an answer is given on the connection that asked for it, and not kept to be fetched later; leave it out`)
	// errGone means that the caller left; there is nobody to answer.
	errGone = errors.New("the caller left")
	// errAborted ends an answer that has begun and cannot be completed: the
	// connection is cut, so that it does not look like a clean end.
	errAborted = errors.New("the answer was cut")
)

// failure is an answer in OpenAI's error shape.
type failure struct {
	status     int
	kind       string // "type" of the error object
	code       string // empty: null
	param      string // empty: null
	message    string
	outcome    traffic.Outcome
	retryAfter time.Duration // zero: no header
	unsent     bool          // no byte of the request reached the replica
	noRetry    bool          // a retry would do the work twice
	dropped    string        // why it never reached a replica; empty: it is not said
	allow      string        // of a 405
	silent     bool          // leaves no evidence record: nobody known called
	verbatim   []byte        // the engine's own words, in the right shape already
}

func (f *failure) Error() string { return f.message }

// object is the error object in its envelope.
func (f *failure) object() []byte {
	if f.verbatim != nil {
		return f.verbatim
	}
	b := append(make([]byte, 0, len(f.message)+128), `{"error":{"message":`...)
	b = wire.AppendString(b, f.message)
	b = append(b, `,"type":`...)
	b = wire.AppendString(b, f.kind)
	b = appendNullable(append(b, `,"param":`...), f.param)
	b = appendNullable(append(b, `,"code":`...), f.code)
	return append(b, `}}`...)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return wire.AppendString(b, s)
}

// event is the error as a server-sent event.
func (f *failure) event() []byte {
	object := bytes.ReplaceAll(f.object(), []byte("\n"), []byte(" ")) // an event's data is one line
	return append(append([]byte("data: "), object...), "\n\n"...)
}

// write is the one place where an error becomes an answer.
func (f *failure) write(w http.ResponseWriter) {
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", `Bearer realm="modeldock"`)
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retrySeconds(f.retryAfter)))
	}
	if f.noRetry {
		h.Set("X-Should-Retry", "false")
	}
	if f.dropped != "" {
		h.Set("X-Modeldock-Dropped-Reason", f.dropped)
	}
	body := f.object()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	_, _ = w.Write(body) // a caller who left learns nothing either way
}

// retrySeconds rounds up into what clients accept: SDKs ignore a Retry-After
// beyond two minutes.
func retrySeconds(d time.Duration) int {
	seconds := int((d + time.Second - 1) / time.Second)
	return min(max(seconds, 1), 120)
}

func badRequest(err error) error {
	f := &failure{
		status: http.StatusBadRequest, kind: typeRequest, code: "invalid_request",
		message: err.Error(), outcome: traffic.Forbidden,
	}
	var known *wire.RequestError
	if errors.As(err, &known) {
		f.param, f.code = known.Param, known.Code
	}
	return f
}

func unknownPath(path string) error {
	return &failure{
		status: http.StatusNotFound, kind: typeRequest, code: "unknown_url", outcome: traffic.NotFound,
		message: fmt.Sprintf("there is nothing at %.200q; the gateway serves POST /v1/chat/completions, "+
			"/v1/completions, /v1/responses, /v1/embeddings, /v1/rerank, /v1/audio/transcriptions, GET /v1/models and /v1/models/{id}", path),
	}
}

func wrongMethod(method, path, allowed string) error {
	return &failure{
		status: http.StatusMethodNotAllowed, kind: typeRequest, code: "method_not_allowed", outcome: traffic.NotFound,
		message: fmt.Sprintf("%.20s is not possible on %s; use %s", method, path, allowed), allow: allowed,
	}
}

func modelNotFound(name string) error {
	return &failure{
		status: http.StatusNotFound, kind: typeRequest, code: "model_not_found", param: "model",
		message: fmt.Sprintf("the model %.200q does not exist or you may not use it; GET /v1/models lists yours", name),
		outcome: traffic.NotFound,
	}
}
