package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"modeldock.io/internal/delivery/local/procfs"
)

// Main runs the supervisor until its model and everything that the model
// started are gone, and returns the process's exit code.
func Main(_ []string) int {
	kept := keepInherited()
	// A parent-death signal belongs to the thread that forked, so this one
	// must live as long as the process.
	runtime.LockOSThread()
	s := &supervisor{
		control: bufio.NewReader(os.NewFile(controlFD, "control")),
		events:  json.NewEncoder(os.NewFile(eventFD, "events")),
		stop:    make(chan time.Duration, 4),
	}
	err := kept
	if err == nil {
		err = s.run()
	}
	if err != nil {
		_ = s.events.Encode(event{Failed: err.Error()})
		return 1
	}
	return 0
}

type supervisor struct {
	control *bufio.Reader
	events  *json.Encoder
	stop    chan time.Duration // grace between SIGTERM and SIGKILL
	engine  int
}

func (s *supervisor) run() error {
	var spec Spec
	line, err := s.control.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if err := json.Unmarshal(line, &spec); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	// Orphans below us become our children, also those that left the group.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	s.listenForSignals()
	log, err := openLog(spec.LogFile, spec.LogBytes)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := s.start(spec, log); err != nil {
		log.Note("could not be started: " + err.Error())
		return err
	}
	go s.readCommands()
	exit := s.wait()
	log.Drain(time.Second)
	exit.Tail = log.Tail()
	log.Note(fmt.Sprintf("ended: code %d %s", exit.Code, exit.Signal))
	_ = s.events.Encode(event{Exited: &exit}) // nobody may be left to hear it
	return nil
}

// listenForSignals takes SIGTERM as a wish to stop; a terminal's signals are
// for ModelDock, which stops us in its own order.
func (s *supervisor) listenForSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		for range term {
			s.stop <- orphanGrace
		}
	}()
}

// start forks the model into its own process group. It goes round os/exec,
// whose own waiting would compete with the reaping of orphans.
func (s *supervisor) start(spec Spec, log *logFile) error {
	out, err := log.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }()
	attr := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if spec.UID > 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(spec.UID), Gid: uint32(spec.UID)} //nolint:gosec // a uid that we handed out
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("forbid new privileges: %w", err)
		}
	}
	log.Note("starting " + spec.Command[0])
	restore := offerToOOMKiller(log)
	pid, err := syscall.ForkExec(spec.program(), spec.Command, attr)
	restore()
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Command[0], err)
	}
	s.engine = pid
	started := Started{PID: pid}
	if p, err := procfs.Stat(pid); err == nil {
		started.StartTicks = p.StartTicks
	}
	_ = s.events.Encode(event{Started: &started}) // the end of control tells if nobody hears it
	return nil
}

// readCommands turns the control pipe into stop wishes; its end, which also
// comes when ModelDock is killed, is the most urgent one.
func (s *supervisor) readCommands() {
	for {
		line, err := s.control.ReadBytes('\n')
		if err != nil {
			s.stop <- orphanGrace
			return
		}
		var c command
		if json.Unmarshal(line, &c) == nil && c.StopMillis != nil {
			s.stop <- time.Duration(*c.StopMillis) * time.Millisecond
		}
	}
}
