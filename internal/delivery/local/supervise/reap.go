package supervise

import (
	"os"
	"syscall"
	"time"

	"modeldock.io/internal/delivery/local/procfs"
)

// sweepEvery is how often the rest of a tree is killed again while it keeps
// forking.
const sweepEvery = 20 * time.Millisecond

type reaped struct {
	pid    int
	status syscall.WaitStatus
}

// wait ends when the last process below us is reaped. Once the main process
// is gone, or its grace is over, everything that is left is killed.
func (s *supervisor) wait() Exit {
	children := make(chan reaped)
	go reap(children)
	var exit Exit
	var kill, sweep <-chan time.Time
	running := true
	for {
		select {
		case grace := <-s.stop:
			if running {
				// Only while the main process is not reaped is its group
				// certain to be ours.
				_ = syscall.Kill(-s.engine, syscall.SIGTERM)
			}
			kill = time.After(grace)
		case <-kill:
			killTree()
			sweep = time.Tick(sweepEvery)
		case <-sweep:
			killTree()
		case r, more := <-children:
			if !more {
				return exit
			}
			if r.pid == s.engine {
				running = false
				exit = exitOf(r.status)
				killTree()
				sweep = time.Tick(sweepEvery)
			}
		}
	}
}

// reap collects every child, born or adopted, until there is none.
func reap(out chan<- reaped) {
	defer close(out)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return // ECHILD: nobody is left
		}
		out <- reaped{pid, ws}
	}
}

func killTree() {
	table, err := procfs.Table()
	if err != nil {
		return // tried again at the next sweep
	}
	for _, pid := range procfs.Descendants(table, os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func exitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() { //nolint:misspell // the standard library spells it so
		return Exit{Code: -1, Signal: ws.Signal().String()}
	}
	return Exit{Code: ws.ExitStatus()}
}
