package api

import (
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// bodyTime is how long a body may take to arrive.
	bodyTime = time.Minute
	// signInTime is the same for somebody who is not known yet.
	signInTime = 10 * time.Second
	// unreadTime is how long the server goes on to read what nobody wants, which
	// it does before it answers.
	unreadTime = time.Second
	// importFactor is how much longer a whole ledger may take: it may be large,
	// and come over a slow line.
	importFactor = 60
)

// inTime ends a body that does not arrive in time. What is not read, because
// its caller may not send it, or nobody asks for it, has hardly any. The bound
// is on the body alone: once it is whole, its answer may take as long as it
// takes.
func (s *Server) inTime(c *gin.Context, body io.ReadCloser) io.ReadCloser {
	if c.Request.ContentLength == 0 {
		return body
	}
	within := s.BodyTime
	switch c.Request.URL.Path {
	case importPath:
		within *= importFactor
	case sessionPath:
		within = min(within, signInTime)
	}
	control := http.NewResponseController(c.Writer)
	if control.SetReadDeadline(time.Now().Add(min(within, unreadTime))) != nil {
		return body // a writer that has no connection
	}
	return &timedBody{ReadCloser: body, control: control, within: within}
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	within  time.Duration // from the first look; then 0
}

func (b *timedBody) Read(p []byte) (int, error) {
	if b.within > 0 {
		_ = b.control.SetReadDeadline(time.Now().Add(b.within))
		b.within = 0
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err //nolint:wrapcheck // the body's own
}
