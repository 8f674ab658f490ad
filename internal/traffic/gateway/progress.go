package gateway

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"modeldock.io/internal/traffic/waitroom"
)

// tellProgress sends a comment of server-sent events to a caller who asked to
// be told how the wait goes. With it the status is sent: what goes wrong later
// is told by an event.
func (x *exchange) tellProgress(o waitroom.Outlook, left time.Duration) error {
	rc := http.NewResponseController(x.w)
	if !x.started {
		h := x.w.Header()
		h["Content-Type"] = []string{"text/event-stream"}
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"}
		h["X-Modeldock-Version"] = []string{x.rec.Version}
		_ = rc.SetWriteDeadline(time.Time{}) // see relayStream
		x.start(http.StatusOK)
		x.events = true
	}
	comment := fmt.Sprintf(": modeldock position=%d seconds=%d\n\n", o.Position, retrySeconds(left))
	if _, err := io.WriteString(x.w, comment); err != nil {
		return errGone // nothing was sent upstream that could be cancelled
	}
	if rc.Flush() != nil {
		return errGone
	}
	return nil
}

// failEvents ends an answer that has begun as events: with the error as an
// event, and without [DONE].
func (x *exchange) failEvents(f *failure) {
	if x.send(f.event()) != nil || x.flush(http.NewResponseController(x.w)) != nil {
		x.aborted = true
	}
}

// failureAfterProgress is what an engine's answer becomes that is no stream
// although the caller's answer has begun as one.
func (x *exchange) failureAfterProgress(a *answer) error {
	text, err := io.ReadAll(io.LimitReader(a.source, maxFailure))
	if err != nil {
		return x.sourceFailed(err)
	}
	x.rec.LastByteAt = x.now()
	if a.StatusCode < 400 {
		return x.invalidAnswer(fmt.Sprintf("%d with content type %.60q where events were asked for", a.StatusCode, a.media()), "")
	}
	f := engineFailure(statusFor(a.StatusCode), wordsOf(a.StatusCode, a.Header.Get("Content-Type"), text))
	if said, ok := readEngineError(text); ok && said.conforms {
		f.code, f.verbatim = said.code, text
	}
	return f
}
