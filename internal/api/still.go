package api

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// identifyAgain is how long what is streamed goes on before its caller is
// identified again: a revoked or expired key ends it within five seconds.
const identifyAgain = 4 * time.Second

// untilRefused is the call's context until its credential is not valid any
// more; the problem is then its cause.
func (s *Server) untilRefused(c *gin.Context) (until context.Context, end func()) {
	request := c.Request
	until, stop := context.WithCancelCause(request.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(s.askAgain)
		defer tick.Stop()
		for {
			select {
			case <-until.Done():
				return
			case <-tick.C:
			}
			if _, err := s.Identify(request); refused(err) {
				stop(err)
				return
			}
		}
	}()
	return until, func() { stop(context.Canceled); <-ended }
}

// refusal is why a context of untilRefused ended, or nil.
func refusal(ctx context.Context) error {
	if err := context.Cause(ctx); refused(err) {
		return err
	}
	return nil
}

// refused reports whether err is about the credential; a ledger that cannot
// be read at this moment ends no stream.
func refused(err error) bool {
	var p *problem
	return errors.As(err, &p)
}

// follows is whether a log is to be followed, for all who ask: the generated
// router has refused what is no truth value.
func follows(c *gin.Context) bool {
	follow, _ := strconv.ParseBool(c.Query("follow"))
	return follow
}

// lastWords closes a followed log that ends before the engine does.
func lastWords(why string) string {
	return "\n[modeldock: " + strings.ReplaceAll(why, "\n", " ") + "]\n"
}
