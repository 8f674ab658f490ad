package gateway

import (
	"net/http"
	"time"
)

// NewServer returns a server for handler with limits that fit long answers: a
// caller has ten seconds for the header, but nothing bounds how long a body
// takes to arrive or an answer to be written. It has no address; hand it a
// listener.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}
