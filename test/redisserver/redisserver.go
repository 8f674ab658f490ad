// Package redisserver runs a private Redis for tests: on a free loopback port,
// without files, killed and started again as a test wants. It needs the
// Debian package redis-server.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const startWait = 30 * time.Second

// ErrNotInstalled says that there is no Redis on this machine.
var ErrNotInstalled = errors.New("redis-server is not installed")

// Server is one server, running or not.
type Server struct {
	// Addr is its loopback address; it stays over restarts.
	Addr   string
	dir    string
	port   string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// Start runs a new server with settings beside the defaults, such as
// "--requirepass", "secret".
func Start(ctx context.Context, settings ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of Redis: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	s := &Server{Addr: listener.Addr().String(), dir: dir, args: settings}
	_, s.port, err = net.SplitHostPort(s.Addr)
	if err = errors.Join(err, listener.Close()); err == nil {
		err = s.Launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Launch starts the server again after a Kill, with nothing in it.
func (s *Server) Launch(ctx context.Context) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w: install the package redis-server", ErrNotInstalled)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("make the log of Redis: %w", err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(program, append([]string{
		"--port", s.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--daemonize", "no",
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive a test that crashed
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in the log
		close(exited)
	}(s.cmd, s.exited)
	return s.ready(ctx)
}

// ready waits until the server answers, be it that it wants a password.
func (s *Server) ready(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	for deadline := time.Now().Add(startWait); ; time.Sleep(10 * time.Millisecond) {
		err := rdb.Ping(ctx).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("redis-server ended at its start: %s", s.logTail())
		default:
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("redis-server does not answer: %w: %s", err, s.logTail())
		}
	}
}

func (s *Server) logTail() string {
	content, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(content[max(0, len(content)-2000):])
}

// Kill ends the server at once.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Pause lets the server hang: it takes connections and answers nothing.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // it may have ended by itself
	<-s.exited
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	s.signal(syscall.SIGKILL)
	return os.RemoveAll(s.dir)
}
