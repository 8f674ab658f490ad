package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"time"

	"modeldock.io/internal/traffic/gateway"
)

// side is one of the servers that are compared, as a child process.
type side struct {
	name    string
	address string
	header  string // what it needs to be told with each request; lines with CRLF
	share   int    // it gets one request in so many: slow ones would take all the time
	command *exec.Cmd
	done    func() // after it has ended
}

func (s *side) stop() {
	if s.command != nil {
		_ = s.command.Process.Signal(os.Interrupt)
		_ = s.command.Wait()
	}
	if s.done != nil {
		s.done()
	}
}

// startOwn runs this program again as a server that is alone on its core.
func startOwn(ctx context.Context, name, engine, profile string) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	command := child(ctx, self, "--serve", name, "--engine", engine, "--profile", profile)
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	pin(command.Process.Pid, serverCore)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read the address of the %s: %w", name, err)
	}
	return &side{name: name, address: strings.TrimSpace(address), command: command, share: 1}, nil
}

// child is a program that ends with ctx.
func child(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stderr = os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	return command
}

// serveSide is the child: it prints its address and serves until interrupted.
func serveSide(ctx context.Context, name, engine, profile string) error {
	handler, err := map[string]func(string) (http.Handler, error){proxyName: newProxy, gatewayName: newGateway}[name](engine)
	if err != nil {
		return err
	}
	if profile != "" && name == gatewayName {
		file, err := os.Create(profile)
		if err != nil {
			return fmt.Errorf("create the profile: %w", err)
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("start the profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Println(listener.Addr())
	if err := serve(ctx, name, handler, listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// serve uses the gateway's own server for the gateway and a plain one with the
// same limits for the baseline.
func serve(ctx context.Context, name string, handler http.Handler, listener net.Listener) error {
	if name == gatewayName {
		server := gateway.NewServer(handler)
		context.AfterFunc(ctx, func() { _ = server.Close() })
		return server.Serve(listener)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.Serve(listener)
}
