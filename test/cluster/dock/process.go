package dock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startWait bounds the start of a process, stopWait its polite end.
const (
	startWait = 60 * time.Second
	stopWait  = 60 * time.Second
)

// ready is what a process says once it answers.
var ready = regexp.MustCompile(`^ModelDock (?:(?:controller|gateway) is ready: \S+|agent of \S+ is up)$`)

// Process is a controller, a gateway or an agent, started again and again on the same
// address.
type Process struct {
	Name string
	URL  string // known before the first start
	Ops  string // URL of its metrics, for callers on this machine
	args []string
	env  []string
	log  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	exit chan struct{} // closed when it has ended
}

// Start starts it and returns once it answers.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	defer func() { _ = log.Close() }() // the process's words are copied by follow
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env = p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive whoever started it
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.exit = cmd, make(chan struct{})
	answers := make(chan struct{})
	go p.follow(out, answers, cmd, p.exit)
	wait := time.NewTimer(startWait)
	defer wait.Stop()
	select {
	case <-answers:
		return nil
	case <-p.exit:
		return fmt.Errorf("%s ended at its start: %s", p.Name, p.LogTail())
	case <-wait.C:
		return fmt.Errorf("%s does not answer: %s", p.Name, p.LogTail())
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Process) follow(out io.Reader, answers chan<- struct{}, cmd *exec.Cmd, exit chan<- struct{}) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log = nil // it is read all the same, so that the process never waits
	}
	told := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if log != nil {
			_, _ = fmt.Fprintln(log, lines.Text())
		}
		if !told && ready.MatchString(lines.Text()) {
			told = true
			close(answers)
		}
	}
	_ = cmd.Wait()
	_ = log.Close()
	close(exit)
}

// Ready returns once the process says that it is: one that answers may still
// be reading what there is.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	last := "no answer"
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Ops+"/readyz", http.NoBody)
		if err != nil {
			return fmt.Errorf("ask %s whether it is ready: %w", p.Name, err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = string(text)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %s: %w", p.Name, last, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PID is the process's id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Kill ends this very process with kill -9 and returns when it is gone.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends it the polite way.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(with syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	select {
	case <-p.exit:
		return nil
	case <-time.After(stopWait):
	}
	_ = p.cmd.Process.Kill()
	<-p.exit
	return fmt.Errorf("%s did not end within %s and was killed: %s", p.Name, stopWait, p.LogTail())
}

// LogFile is where all that it said is.
func (p *Process) LogFile() string { return p.log }

// Log is all that it said, of every start.
func (p *Process) Log() (string, error) {
	text, err := os.ReadFile(filepath.Clean(p.log))
	if err != nil {
		return "", fmt.Errorf("read the log of %s: %w", p.Name, err)
	}
	return string(text), nil
}

// LogTail is the end of what it said.
func (p *Process) LogTail() string {
	text, err := os.ReadFile(filepath.Clean(p.log))
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
