// Package mariadb runs a private MariaDB server for tests and benchmarks: in
// a folder of its own, on a socket and a free loopback port, with small
// buffers and full durability. It needs the Debian package mariadb-server.
package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// startWait bounds the start and the stop of the server.
const startWait = time.Minute

// ErrNotInstalled says that there is no MariaDB server on this machine.
var ErrNotInstalled = errors.New("MariaDB is not installed")

// Server is one running server.
type Server struct {
	// Addr is its loopback address.
	Addr   string
	env    []string
	socket string
	dir    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	exit   error         // why, to be read after that
	log    *os.File
	next   atomic.Int64
}

// Start installs an empty server in a new folder under parent (default the
// system's temporary one) and starts it.
func Start(ctx context.Context, parent string) (*Server, error) {
	return StartWith(ctx, parent)
}

// StartWith is Start with variables in the server's environment.
func StartWith(ctx context.Context, parent string, env ...string) (*Server, error) {
	// The socket's path must be short; the server's user must reach the folder.
	dir, err := os.MkdirTemp(parent, "mariadb-")
	if err != nil {
		return nil, fmt.Errorf("make the server's folder: %w", err)
	}
	s := &Server{dir: dir, env: env, socket: filepath.Join(dir, "sock")}
	if err := s.first(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// program finds a server's program, which Debian keeps out of users' paths.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path := filepath.Join("/usr/sbin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %s is missing: install the package mariadb-server", ErrNotInstalled, name)
	}
	return path, nil
}

func (s *Server) install(ctx context.Context) error {
	install, err := program("mariadb-install-db")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+filepath.Join(s.dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--tmpdir="+s.dir, sameUser()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("install a MariaDB in %s: %w: %s", s.dir, err, out)
	}
	return nil
}

// sameUser lets the server run as whoever runs the test: it refuses to be
// root only where nobody said so.
func sameUser() string {
	if os.Getuid() == 0 {
		return "--user=root"
	}
	return "--user=" + strconv.Itoa(os.Getuid())
}

// first installs the server and starts it for the first time.
func (s *Server) first(ctx context.Context) error {
	if err := s.install(ctx); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	return s.launch()
}

// Restart kills the server in the midst of its work and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Halt(); err != nil {
		return err
	}
	return s.Resume(ctx)
}

// Halt kills the server in the midst of its work; its data stay.
func (s *Server) Halt() error {
	_ = s.cmd.Process.Kill() // by its own pid; it may have ended by itself
	<-s.exited
	if err := s.log.Close(); err != nil {
		return fmt.Errorf("close the server's log: %w", err)
	}
	return nil
}

// Resume starts a halted server again, at the same addresses.
func (s *Server) Resume(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.ready(ctx)
}

// launch starts the server; the log says why, if it does not come up.
func (s *Server) launch() error {
	server, err := program("mariadbd")
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return fmt.Errorf("make the server's log: %w", err)
	}
	s.cmd = exec.Command(server, "--no-defaults", sameUser(), "--datadir="+filepath.Join(s.dir, "data"), "--socket="+s.socket,
		"--bind-address=127.0.0.1", "--port="+port, "--pid-file="+filepath.Join(s.dir, "pid"), "--skip-name-resolve", "--tmpdir="+s.dir, // servers clear a shared one of each other's files
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1",
		"--max-connections=1000", "--performance-schema=OFF", "--aria-pagecache-buffer-size=8M", "--key-buffer-size=8M", "--table-open-cache=4000")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive a test that crashed
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		s.exit = cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func (s *Server) ready(ctx context.Context) error {
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return fmt.Errorf("open MariaDB: %w", err)
	}
	defer func() { _ = db.Close() }()
	for deadline := time.Now().Add(startWait); ; time.Sleep(20 * time.Millisecond) {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("MariaDB ended at its start: %w: %s", s.exit, s.logTail())
		default:
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("MariaDB does not answer: %w: %s", err, s.logTail())
		}
	}
}

func (s *Server) logTail() string {
	content, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(content[max(0, len(content)-2000):])
}

// DSN names a database of the server, by its socket.
func (s *Server) DSN(database string) string { return dsn("unix", s.socket, database) }

// TCP names a database as seen at another address, such as a proxy's.
func TCP(addr, database string) string { return dsn("tcp", addr, database) }

func dsn(network, addr, database string) string {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", network, addr, database
	return cfg.FormatDSN()
}

// Create makes a new, empty database and returns its name and a function that
// drops it.
func (s *Server) Create(ctx context.Context) (name string, drop func() error, err error) {
	name = fmt.Sprintf("ledger_%d", s.next.Add(1))
	if err := s.exec(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	return name, func() error { return s.exec(context.WithoutCancel(ctx), "DROP DATABASE "+name) }, nil
}

func (s *Server) exec(ctx context.Context, statement string) error {
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// PID is the server's process, for benchmarks that watch it.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-s.exited:
		case <-time.After(startWait):
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
	}
	return errors.Join(s.log.Close(), os.RemoveAll(s.dir))
}
