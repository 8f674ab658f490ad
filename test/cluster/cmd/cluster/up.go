package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"modeldock.io/test/cluster"
)

const (
	readyLine = "ready" // what the supervisor says last
	downWait  = 90 * time.Second
)

// up starts the supervisor in the background and waits until the cluster is
// ready, printing what the supervisor reports.
func up(ctx context.Context, s settings, args []string) error {
	if running, ok, err := cluster.Running(s.dir); err != nil {
		return err
	} else if ok {
		return fmt.Errorf("a cluster runs in %s already, under process %d; stop it with: ./scripts/cluster.sh down --dir %s", running.Dir, running.PID, s.dir)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	log, err := os.Create(filepath.Join(s.dir, "supervisor.log"))
	if err != nil {
		return fmt.Errorf("make the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the supervisor has its own
	reports, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("listen to the supervisor: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	began := time.Now()
	cmd := exec.Command(self, append([]string{"supervise"}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this terminal
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	_ = theirs.Close() // so that the supervisor's end is the end of the reports
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	ready := false
	lines := bufio.NewScanner(reports)
	for !ready && lines.Scan() {
		if ready = lines.Text() == readyLine; !ready {
			fmt.Println(lines.Text())
		}
	}
	if !ready {
		err := cmd.Wait()
		return fmt.Errorf("the cluster did not start: supervisor: %w; logs are in %s", errors.Join(err, ctx.Err()), s.dir)
	}
	return introduce(s, time.Since(began))
}

// introduce says what runs and how to use it.
func introduce(s settings, took time.Duration) error {
	fmt.Printf("\nKubernetes is up after %s.\n\n", took.Round(100*time.Millisecond))
	if err := status(s.dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return fmt.Errorf("find the cluster's folder: %w", err)
	}
	fmt.Printf(`
Use it:    export KUBECONFIG=%[1]s/kubeconfig
           %[1]s/kubectl get nodes
Logs:      %[1]s/logs
Stop it:   ./scripts/cluster.sh down --dir %[2]s
`, dir, s.dir)
	if s.modeldock == "" {
		return nil
	}
	var urls struct{ API, Gateway string }
	text, err := os.ReadFile(filepath.Join(dir, "urls.json"))
	if err == nil {
		err = json.Unmarshal(text, &urls)
	}
	if err != nil {
		return fmt.Errorf("read where ModelDock answers: %w", err)
	}
	fmt.Printf(`
ModelDock: console %[1]s/console/   gateway %[2]s/v1   keys %[3]s/keys.json
           export MODELDOCK_URL=%[1]s
           modeldock --key-file %[3]s/keys.json --tenant team-a submit --id demo --wait
           modeldock --key-file %[3]s/keys.json --tenant team-a explain demo
           modeldock --key-file %[3]s/keys.json --tenant team-a nodes
`, urls.API, urls.Gateway, dir)
	return nil
}

// status prints the cluster's processes.
func status(dir string) error {
	s, ok, err := cluster.Running(dir)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w in %s", errNotRunning, dir)
	}
	fmt.Printf("%-28s %8s\n%-28s %8d\n", "COMPONENT", "PROCESS", "supervisor", s.PID)
	var ended []string
	for _, c := range s.Components {
		if c.Alive {
			fmt.Printf("%-28s %8d\n", c.Name, c.PID)
		} else {
			ended = append(ended, c.Name)
		}
	}
	if len(ended) > 0 {
		return fmt.Errorf("these have ended: %s; their logs are in %s", strings.Join(ended, ", "), filepath.Join(s.Dir, "logs"))
	}
	return nil
}

// down ends the supervisor, which takes everything along, and cleans up where
// it could not.
func down(ctx context.Context, dir string) error {
	s, ok, err := cluster.Running(dir)
	if err != nil {
		return err
	}
	if ok {
		if err := end(ctx, dir, s.PID); err != nil {
			return err
		}
	}
	if err := cluster.CleanUp(ctx); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w in %s", errNotRunning, dir)
	}
	fmt.Println("the cluster is stopped")
	return nil
}

func end(ctx context.Context, dir string, pid int) error {
	_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended just now
	deadline := time.After(downWait)
	for {
		_, ok, err := cluster.Running(dir)
		if err != nil || !ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			_ = syscall.Kill(pid, syscall.SIGKILL) // the kernel ends what is below it
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}
