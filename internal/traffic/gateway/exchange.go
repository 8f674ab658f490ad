package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"modeldock.io/internal/traffic"
)

// statusClientGone is what the record of a caller who left before the answer
// began shows; it is never sent.
const statusClientGone = 499

// exchange is one request with what is known about it so far.
type exchange struct {
	g         *Gateway
	w         http.ResponseWriter
	r         *http.Request
	rec       traffic.Inference
	inference bool // leaves a record
	silent    bool // …unless nobody known called
	started   bool // the status is on its way to the caller
	aborted   bool // the connection has to be cut
	bodyOver  bool // nothing more of the body is wanted
	plain     bool // the answer may be text instead of JSON
	events    bool // the answer began as events, before an engine was found
	settled   bool // the record of a complete answer was handed over
	meter     *meter
	span      trace.Span // nil unless traces are sent
	spend     *spending  // of the caller's limits; nil if there are none
	fill      *filling   // the answer is collected for the cache; nil if not
	estimate  estimate   // of its tokens
	answered  answered   // what came of its answer
	free      bool       // no model worked for it
	wish      wish       // what it needs of a replica
	activity  *activity  // of its version, once it needs a replica of it
}

// begin stamps the arrival and gives the request its id.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	now := g.cfg.Clock()
	x := &exchange{g: g, w: w, r: r}
	x.rec.RequestID = newRequestID(now)
	x.rec.ClientRequestID = printable(r.Header.Get("X-Request-Id"))
	x.rec.Path = r.URL.Path
	x.rec.ReceivedAt = now
	w.Header()["X-Request-Id"] = []string{x.rec.RequestID}
	return x
}

// printable keeps a client's id fit for logs.
func printable(s string) string {
	const most = 128
	s = s[:min(len(s), most)]
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return ""
		}
	}
	return s
}

// typedName is a model's name as the caller wrote it, fit for records: what
// does not print is replaced, and its length is bounded.
func typedName(s string) string {
	const most = 128
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), most*utf8.UTFMax)])
	for len(s) > most {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

func (x *exchange) now() time.Time { return x.g.cfg.Clock() }

func (x *exchange) caller(k *traffic.Key) {
	x.rec.Tenant, x.rec.KeyID = k.Tenant, k.ID
	AnswerFor(x.r.Context(), k.Tenant)
}

func (x *exchange) model(m *traffic.Model) {
	x.rec.Owner, x.rec.Model, x.rec.Version = m.Owner, m.Name, m.Version
	x.rec.ReservationID, x.rec.ObjectUID = m.RequestID, m.ObjectUID
	x.meter = x.g.metrics.meter(x.rec.Tenant, m.Owner+"/"+m.Name, m.Version)
}

// uses notes that the version is in use from now until the request ends.
func (x *exchange) uses(a *activity) {
	if x.activity == nil { // else it was refused by a replica and waits again
		a.arrive(x.now())
	}
	x.activity = a
}

func (x *exchange) endpoint(e *traffic.Endpoint) {
	x.rec.EndpointUID, x.rec.ObjectUID = e.UID, e.ObjectUID
}

// start sends the status; what goes wrong later cannot change it any more.
func (x *exchange) start(status int) {
	if x.started { // by the progress of its wait
		return
	}
	x.started = true
	x.rec.Status = status
	x.w.WriteHeader(status)
}

// contentDelivered stamps the first content once it was flushed. A stream that
// goes on is recorded at once, so that its proof does not wait for its end.
func (x *exchange) contentDelivered(at time.Time, goesOn bool) {
	x.rec.FirstContentAt = at
	took := x.rec.FirstContentAt.Sub(x.rec.ReceivedAt)
	x.meter.firstChunk.Observe(took.Seconds())
	if x.activity != nil { // else it came from the cache
		x.activity.firstChunk(took, at)
	}
	if goesOn {
		x.report()
	}
}

// completed stamps an answer that was flushed to its end and records it at
// once: its caller may ask for the trace before the engine has hung up.
func (x *exchange) completed(at time.Time) {
	x.rec.DoneAt, x.rec.Outcome, x.rec.Error = at, traffic.Completed, ""
	x.report()
	x.settled = true
}

// report hands a copy of the record over. It is kept out of its callers, so
// that the copy's room is not part of every stream's stack.
//
//go:noinline
func (x *exchange) report() { x.g.cfg.Recorder.Record(x.rec) }

// fail turns an error into the answer and the record's outcome.
func (x *exchange) fail(err error) {
	var f *failure
	switch {
	case errors.Is(err, errGone):
		if x.rec.DoneAt.IsZero() {
			x.rec.Outcome, x.rec.Error = traffic.ClientCancelled, errGone.Error()
		}
		if !x.started {
			x.rec.Status = statusClientGone
		}
		x.aborted = true
		return
	case errors.Is(err, errAborted):
		x.aborted = true
		return
	case !errors.As(err, &f):
		x.g.cfg.Logger.Error("request failed", "requestID", x.rec.RequestID, "error", err)
		f = internalFailure(x.rec.RequestID)
	}
	x.silent = f.silent
	x.note(f)
	if x.events {
		x.failEvents(f)
		return
	}
	if x.started {
		x.aborted = true
		return
	}
	x.started = true
	x.rec.Status = f.status
	f.write(x.w)
}

// note puts a failure into the record.
func (x *exchange) note(f *failure) {
	x.rec.Outcome, x.rec.Error, x.settled = f.outcome, f.code, false
	if f.code == "" {
		x.rec.Error = f.kind
	}
}

func internalFailure(requestID string) *failure {
	return &failure{
		status: http.StatusInternalServerError, kind: typeServer, code: "internal_error", outcome: traffic.UpstreamError,
		message: fmt.Sprintf("the gateway failed on request %s; its log says why", requestID), noRetry: true,
	}
}

// conclude records how the request ended, or counts that it was one refusal
// too many to be told apart.
func (x *exchange) conclude() {
	if worthless(&x.rec) && !x.g.rejections.record(x.rec.Tenant, x.now()) {
		x.g.metrics.unrecorded.Inc()
		return
	}
	x.report()
}

// dropBody bounds the time that the server takes to read what is left of a
// body that nobody wanted: it does so before the connection's next request. A
// stranger's connection is not held for it any longer than its answer needs.
func (x *exchange) dropBody() {
	if x.bodyOver || x.r.ContentLength == 0 {
		return
	}
	rest := x.g.cfg.Pace.Grace
	if x.rec.Tenant == "" {
		rest = min(rest, strangersRest)
	}
	dropBody(x.w, x.r, rest)
}

// finish runs on every exit, panics included: answer, metrics, evidence.
func (x *exchange) finish() {
	p := recover()
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value that net/http itself compares
		x.g.cfg.Logger.Error("request panicked", "requestID", x.rec.RequestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		x.fail(internalFailure(x.rec.RequestID))
	}
	x.dropBody()
	x.g.settleUse(x)
	if x.activity != nil {
		now := x.now()
		took := time.Duration(0)
		if !x.rec.FirstByteAt.IsZero() {
			took = now.Sub(x.rec.SentAt)
		}
		x.activity.end(took, now)
	}
	x.g.metrics.finished(x)
	x.endSpan()
	x.logAccess()
	if x.inference && !x.silent && !x.settled {
		x.conclude()
	}
	if x.aborted || p == http.ErrAbortHandler { //nolint:errorlint // see above
		panic(http.ErrAbortHandler)
	}
}
