package api

import (
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// bodyTime is how long a body may take to arrive.
const bodyTime = time.Minute

// importFactor is how much longer a whole ledger may take: it may be large, and
// come over a slow line.
const importFactor = 60

// inTime ends a body that does not arrive in time. The bound is on the body
// alone: once it is whole, its answer may take as long as it takes. Where
// nobody reads the body, the bound holds for the server's own attempt to skip
// it before the next request.
func (s *Server) inTime(c *gin.Context, body io.ReadCloser) io.ReadCloser {
	if c.Request.ContentLength == 0 {
		return body
	}
	within := s.BodyTime
	if c.Request.URL.Path == importPath {
		within *= importFactor
	}
	control := http.NewResponseController(c.Writer)
	if control.SetReadDeadline(time.Now().Add(within)) != nil {
		return body // a writer that has no connection
	}
	return &timedBody{body, control}
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err //nolint:wrapcheck // the body's own
}
