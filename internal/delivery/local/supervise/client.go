package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"modeldock.io/internal/delivery/local/procfs"
)

// Process is a supervised model as its ModelDock sees it. Its methods are
// safe for concurrent use.
type Process struct {
	PID        int // of the supervisor; the model and all it started are below it
	StartTicks uint64
	Model      Started

	mu      sync.Mutex
	control *os.File
	done    chan struct{}
	exit    Exit
}

// Start runs spec under a new supervisor (executable's hidden subcommand) and
// returns once the model's main process runs.
func Start(executable, runID string, spec Spec) (*Process, error) {
	// Every time: a driver's library may have opened another one since.
	if err := keepInherited(); err != nil {
		return nil, err
	}
	controlRead, controlWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the control pipe: %w", err)
	}
	defer func() { _ = controlRead.Close() }()
	eventRead, eventWrite, err := os.Pipe()
	if err != nil {
		_ = controlWrite.Close()
		return nil, fmt.Errorf("make the event pipe: %w", err)
	}
	defer func() { _ = eventWrite.Close() }()

	spec.Env = append(without(spec.Env, RunIDVariable), RunIDVariable+"="+runID)
	cmd := exec.Command(executable, Subcommand) //nolint:noctx // our own binary, which ends with the control pipe
	cmd.Env = []string{RunIDVariable + "=" + runID, "PATH=" + os.Getenv("PATH")}
	cmd.ExtraFiles = []*os.File{controlRead, eventWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for ModelDock
	if err := cmd.Start(); err != nil {
		_ = controlWrite.Close()
		_ = eventRead.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	p := &Process{PID: cmd.Process.Pid, control: controlWrite, done: make(chan struct{})}
	if st, err := procfs.Stat(p.PID); err == nil {
		p.StartTicks = st.StartTicks
	}
	_ = eventWrite.Close() // or its end would never be seen
	events := bufio.NewReader(eventRead)
	first, err := p.handshake(events, spec)
	if err != nil {
		_ = controlWrite.Close()
		_ = eventRead.Close()
		_ = cmd.Wait()
		return nil, err
	}
	p.Model = *first
	go p.follow(events, eventRead, cmd)
	return p, nil
}

// without copies env and leaves out a variable that is nobody's to set.
func without(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

func (p *Process) handshake(events *bufio.Reader, spec Spec) (*Started, error) {
	if err := json.NewEncoder(p.control).Encode(spec); err != nil {
		return nil, fmt.Errorf("tell the supervisor what to run: %w", err)
	}
	e, err := readEvent(events)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the supervisor ended before the model was started: %w", err)
	case e.Failed != "":
		return nil, fmt.Errorf("%s", e.Failed)
	case e.Started == nil:
		return nil, fmt.Errorf("the supervisor did not say what it started")
	}
	return e.Started, nil
}

// follow waits for the end, which the supervisor reports only after the last
// process of the model is gone. A supervisor that ends without a report was
// itself killed.
func (p *Process) follow(events *bufio.Reader, pipe *os.File, cmd *exec.Cmd) {
	exit := Exit{Code: -1, Lost: true}
	for {
		e, err := readEvent(events)
		if err != nil {
			break
		}
		if e.Exited != nil {
			exit = *e.Exited
		}
	}
	_ = pipe.Close()
	_ = cmd.Wait()
	p.mu.Lock()
	_ = p.control.Close()
	p.control = nil
	p.mu.Unlock()
	p.exit = exit
	close(p.done)
}

// Stop sends SIGTERM to the model's process group now and SIGKILL to all that
// is left after grace. It does not wait; repeating it shortens the grace.
func (p *Process) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		return
	}
	millis := grace.Milliseconds()
	_ = json.NewEncoder(p.control).Encode(command{StopMillis: &millis}) // an ended supervisor needs no command
}

// Done is closed when the model and everything it started are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how it ended; valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

func readEvent(in *bufio.Reader) (event, error) {
	var e event
	line, err := in.ReadBytes('\n')
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(line, &e)
}
