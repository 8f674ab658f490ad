// Package supervise is the small parent that stands between ModelDock and one
// model process on this machine (account 2). It runs as a hidden subcommand of
// the same binary, holds one end of a pipe to ModelDock, and sees to it that
// when the pipe ends, however ModelDock ended, nothing of the model is left.
package supervise

import "time"

// RunIDVariable stands in the environment of a supervisor and of everything
// below it, so that leftovers can be found after a crash.
const RunIDVariable = "MODELDOCK_RUN_ID"

// Subcommand is the hidden verb of the modeldock binary that calls Main.
const Subcommand = "supervise"

// The inherited descriptors.
const (
	controlFD = 3 // read: the spec, then commands; its end means stop
	eventFD   = 4 // written: events
)

// orphanGrace is what a model gets between SIGTERM and SIGKILL once ModelDock
// itself is gone: nobody waits for its streams any more.
const orphanGrace = 300 * time.Millisecond

// Spec is what to run, the first line on the control pipe.
type Spec struct {
	Command  []string
	Self     bool     // the program is this very one, whatever Command begins with
	Env      []string // the whole environment, K=V
	Dir      string
	UID      int // > 0: run under this user and group, and never gain rights
	LogFile  string
	LogBytes int64 // the log is rotated at this size; two older files are kept
}

// ownProgram leads to the running program also for a user that cannot enter
// the folders above it; the file itself must be executable for it.
const ownProgram = "/proc/self/exe"

func (s Spec) program() string {
	if s.Self {
		return ownProgram
	}
	return s.Command[0]
}

// command is every further line on the control pipe.
type command struct {
	StopMillis *int64 // SIGTERM now, SIGKILL after so many milliseconds
}

// event is one line on the event pipe.
type event struct {
	Started *Started
	Exited  *Exit
	Failed  string // the command could not be started
}

// Started identifies the model's main process.
type Started struct {
	PID        int
	StartTicks uint64
}

// Exit says how the model's main process ended. It is known only once the
// last process below the supervisor is gone.
type Exit struct {
	Code   int      // -1 where a signal ended it
	Signal string   // "killed", … where a signal ended it
	Tail   []string // last lines of output
	Lost   bool     // the supervisor itself died: somebody must sweep by run id
}
