package simulated

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Main runs the engine with the given flags and returns the exit code.
func Main(args []string) int {
	opts, err := ParseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulated engine:", err)
		return 2
	}
	if err := run(opts); err != nil {
		fmt.Fprintln(os.Stderr, "simulated engine:", err)
		return 1
	}
	return 0
}

func run(opts Options) error {
	if opts.idle {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		for {
			time.Sleep(time.Hour)
		}
	}
	term := make(chan os.Signal, 1)
	if opts.IgnoreSIGTERM {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	}
	if opts.StrayChild {
		if err := startStray(); err != nil {
			return err
		}
	}
	engine := NewEngine(opts)
	engine.exit = os.Exit
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(opts.Host, strconv.Itoa(opts.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: engine.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Printf("simulated engine: loading %s on %s (no real model, %d MiB pretended)\n", opts.Model, listener.Addr(), opts.MemoryMiB)

	loaded := time.After(opts.LoadTime)
	for {
		select {
		case <-loaded:
			if opts.FailLoad != "" {
				return errors.New(opts.FailLoad)
			}
			engine.Loaded(time.Now())
			fmt.Println("simulated engine: ready")
		case err := <-ended:
			return fmt.Errorf("serve: %w", err)
		case <-term:
			return stop(server, opts.StopTime)
		}
	}
}

// stop lets running requests finish, as real engines do.
func stop(server *http.Server, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// startStray forks the kind of child that survives a stop which looks at one
// process, or at one process group, only.
func startStray() error {
	// By this name, because the engine's user may not be able to enter the
	// folder that the program lies in.
	child := exec.Command("/proc/self/exe", Subcommand, "--idle") //nolint:noctx // our own binary, meant to outlive everything
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start a stray child: %w", err)
	}
	fmt.Println("simulated engine: stray child", child.Process.Pid)
	return nil
}
