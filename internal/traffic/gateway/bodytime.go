package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyTimeout is how long a body may take to arrive whose handler sets no bound
// of its own.
const bodyTimeout = 10 * time.Second

// strangersRest is how long what is left of a body is read that nobody wants.
const strangersRest = time.Second

// BoundBodies gives the body of every HTTP/1 request ten seconds to arrive,
// read or not: a server waits for what is left of it before it answers. Handlers
// that know their callers may set another bound.
func BoundBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
				bounded := *r // net/http looks at its own request's body, whether it is worth skipping
				bounded.Body = &boundedBody{r.Body, control}
				r = &bounded
			}
		}
		h.ServeHTTP(w, r)
	})
}

// boundedBody takes the bound back at its end: the answer may take its time.
type boundedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err //nolint:wrapcheck // the body's own
}

// WithoutBody serves what takes no body: one that comes all the same gets a
// second.
func WithoutBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dropBody(w, r, strangersRest)
		h.ServeHTTP(w, r)
	})
}

// dropBody bounds the time that the server takes to read what is left of a body
// that nobody wants.
func dropBody(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
}
