// Package remote lets several processes of one machine deliver to the same
// target: the process that has it serves it over a Unix socket in its data
// directory, which only its user can reach, and the others are clients. It
// adds nothing to a target's meaning: every call may be repeated, and a call
// that timed out may have taken effect.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// socketName is the socket's file in the data directory.
const socketName = "target.sock"

// Paths of the calls.
const (
	pathApply   = "/target/apply"
	pathDelete  = "/target/delete"
	pathObserve = "/target/observe"
	pathList    = "/target/list"
	pathLogs    = "/target/logs"
	pathChanges = "/target/changes"
)

// Served is the target that is shared.
type Served interface {
	delivery.Target
	// Logs returns the engine's output; with follow it ends with ctx.
	Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error)
}

// deletion is the body of a delete.
type deletion struct {
	Ref budget.Ref
	UID string
}

// failure is an error on its way.
type failure struct {
	Kind     string
	Message  string
	Ref      budget.Ref `json:",omitzero"`
	Replica  string     `json:",omitempty"`
	Existing []string   `json:",omitempty"`
}

// Kinds of failure that a caller tells apart.
const (
	kindNameTaken      = "nameTaken"
	kindUnknownReplica = "unknownReplica"
	kindOther          = "other"
)

// describe makes an error ready for its way, with a status for people.
func describe(err error) (int, failure) {
	var unknown *delivery.UnknownReplicaError
	switch {
	case errors.As(err, &unknown):
		return http.StatusNotFound, failure{Kind: kindUnknownReplica, Ref: unknown.Ref, Replica: unknown.Replica, Existing: unknown.Existing}
	case errors.Is(err, delivery.ErrNameTaken):
		return http.StatusConflict, failure{Kind: kindNameTaken, Message: err.Error()}
	}
	return http.StatusInternalServerError, failure{Kind: kindOther, Message: err.Error()}
}

// err is what describe was given, as far as a caller can tell.
func (f failure) err() error {
	switch f.Kind {
	case kindUnknownReplica:
		return &delivery.UnknownReplicaError{Ref: f.Ref, Replica: f.Replica, Existing: f.Existing}
	case kindNameTaken:
		return nameTaken(f.Message)
	}
	return errors.New(f.Message)
}

// nameTaken is an ErrNameTaken with the target's own words.
type nameTaken string

func (e nameTaken) Error() string      { return string(e) }
func (nameTaken) Is(target error) bool { return target == delivery.ErrNameTaken }

// reachable is the socket's path by way of its open folder: a socket's path
// may have 107 bytes only, a data directory's more.
func reachable(folder *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socketName)
}
