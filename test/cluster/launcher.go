package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcher starts processes from one thread of its own. The thread matters
// twice: a parent-death signal is sent when the thread that forked ends, not
// the process; and namespaces are entered by threads.
type launcher struct {
	jobs      chan func()
	closed    chan struct{}
	dieWithUs bool // children get a parent-death signal
}

// errOff says that nothing can be started where the launcher would start it.
var errOff = errors.New("its node or its cluster is off")

// newLauncher runs enter on the new thread before anything is started from it.
func newLauncher(dieWithUs bool, enter func() error) (*launcher, error) {
	l := &launcher{jobs: make(chan func()), closed: make(chan struct{}), dieWithUs: dieWithUs}
	entered := make(chan error, 1)
	onOwnThread(func() {
		err := enter()
		entered <- err
		if err != nil {
			return
		}
		for {
			select {
			case job := <-l.jobs:
				job()
			case <-l.closed:
				return
			}
		}
	})
	return l, <-entered
}

// onOwnThread runs f on a thread that nothing else ever runs on and that ends
// with f. It is not the main thread, whose namespaces stand for the process's.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked below, so that the thread ends
		if syscall.Gettid() != os.Getpid() {
			f()
			return
		}
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere // the main thread is held until then
		runtime.UnlockOSThread()
	}()
}

// start starts the command; it is waited for as usual.
func (l *launcher) start(cmd *exec.Cmd) error {
	if l.dieWithUs {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	ended := make(chan error, 1)
	select {
	case l.jobs <- func() { ended <- cmd.Start() }:
		return <-ended
	case <-l.closed:
		return errOff
	}
}

// close ends the thread; children that still run are then killed.
func (l *launcher) close() { close(l.closed) }

// enterNode moves the calling thread's mounts, and the PID namespace of its
// children, to those of a node's first process. Such children need no
// parent-death signal: they end with that process.
func enterNode(pid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("give a thread a file system view of its own: %w", err)
	}
	for _, ns := range []struct {
		name string
		kind int
	}{{"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.name))
		if err != nil {
			return fmt.Errorf("open a node's namespace: %w", err)
		}
		err = unix.Setns(int(f.Fd()), ns.kind)
		_ = f.Close() // it was read only
		if err != nil {
			return fmt.Errorf("enter the %s namespace of process %d: %w", ns.name, pid, err)
		}
	}
	return nil
}
