package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Exit codes that scripts may rely on.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitPending      = 3
	exitBroken       = 4
	exitConflict     = 5
	exitNotFound     = 6
	exitUnauthorised = 7
)

// exitError is an error with its exit code; a nil err ends silently, because
// the output has said everything.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func failed(err error) error {
	var e *exitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitPending, err}
	default:
		return &exitError{exitFailed, err}
	}
}

// exitOf maps an HTTP status of the management API.
func exitOf(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return exitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitUnauthorised
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict:
		return exitConflict
	case http.StatusTooManyRequests: // as much is stored as may be
		return exitBroken
	default:
		return exitFailed
	}
}
