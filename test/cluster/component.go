package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	readyWait = 2 * time.Minute       // until a component answers; a busy machine is slow
	pollEvery = 50 * time.Millisecond // between two looks at a condition
	stopGrace = 5 * time.Second       // from SIGTERM to SIGKILL
	tailBytes = 4000                  // of a log, in an error
)

// ErrNotRunning says that a component has no process.
var ErrNotRunning = errors.New("it is not running")

// Component is one program of the cluster: it can be killed and started again.
// Its methods may be called by several goroutines.
type Component struct {
	Name    string // such as "etcd" or "node-a/kubelet"
	LogFile string // standard output and error of all its runs

	guest    bool // a test's own
	command  []string
	env      []string
	launcher *launcher
	ready    func(context.Context) error // nil once it serves
	started  func(*Component) error      // writes down the new process

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	exit   error         // why, to be read after that
}

// Start starts the program and waits until it serves.
func (c *Component) Start(ctx context.Context) error {
	if err := c.launch(); err != nil {
		return err
	}
	if err := c.started(c); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

func (c *Component) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running() {
		return fmt.Errorf("start %s: it runs already as process %d", c.Name, c.cmd.Process.Pid)
	}
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = c.env, log, log, "/"
	if err := c.launcher.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	exited := make(chan struct{})
	c.cmd, c.exited, c.exit = cmd, exited, nil
	go func() {
		err := cmd.Wait()
		c.mu.Lock()
		if c.cmd == cmd {
			c.exit = err
		}
		c.mu.Unlock()
		close(exited)
	}()
	return nil
}

// running needs the lock.
func (c *Component) running() bool {
	if c.cmd == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

func (c *Component) waitReady(ctx context.Context) error {
	err := waitFor(ctx, readyWait, func(ctx context.Context) error {
		if c.PID() == 0 {
			return permanent(fmt.Errorf("it ended: %w", c.exitReason()))
		}
		return c.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start %s: %w; the end of %s:\n%s", c.Name, err, c.LogFile, c.LogTail())
	}
	return nil
}

func (c *Component) exitReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit == nil {
		return errors.New("exit status 0")
	}
	return c.exit
}

// PID is the process as the machine sees it, 0 when there is none.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return 0
	}
	return c.cmd.Process.Pid
}

// Kill ends the process with SIGKILL and waits for its end.
func (c *Component) Kill() error { return c.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM, after five seconds with SIGKILL.
func (c *Component) Stop() error { return c.end(syscall.SIGTERM) }

func (c *Component) end(sig syscall.Signal) error {
	c.mu.Lock()
	if !c.running() {
		c.mu.Unlock()
		return fmt.Errorf("stop %s: %w", c.Name, ErrNotRunning)
	}
	process, exited := c.cmd.Process, c.exited
	c.mu.Unlock()
	_ = process.Signal(sig) // it may have ended by itself
	select {
	case <-exited:
	case <-time.After(stopGrace):
		_ = process.Kill()
		<-exited
	}
	return nil
}

// LogTail is the end of its log.
func (c *Component) LogTail() string { return tail(c.LogFile) }

func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	content := make([]byte, tailBytes)
	n, err := f.ReadAt(content, max(0, info.Size()-tailBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return string(content[:n])
}
