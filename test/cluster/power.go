package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// PowerOn brings the node back after PowerOff, as after a reset: with its
// images, and with Pods that start anew. It returns when the kubelet serves,
// which is before the node is Ready.
func (n *Node) PowerOn(ctx context.Context) error {
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	return n.Kubelet().Start(ctx)
}

// startRuntime starts the node's first process and its container runtime.
func (n *Node) startRuntime(ctx context.Context) error {
	if n.first != nil {
		return fmt.Errorf("switch on %s: it is on", n.Name)
	}
	// Sockets and mounts of the last run mean nothing any more.
	if err := clearDir(n.at("run")); err != nil {
		return err
	}
	if err := n.boot(); err != nil {
		return fmt.Errorf("switch on %s: %w", n.Name, err)
	}
	return n.Containerd().Start(ctx)
}

func clearDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear a folder: %w", err)
	}
	return os.MkdirAll(dir, 0o700)
}

// boot makes the namespaces.
func (n *Node) boot() error {
	args := make([]string, 0, len(sharedPaths()))
	for i, path := range sharedPaths() {
		args = append(args, n.private()[i]+":"+path)
	}
	cmd := exec.Command(n.cluster.nodeInit(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make its lifeline: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("listen to its first process: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(n.cluster.Dir, "logs", n.Name+"-init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start its first process: %w", err)
	}
	n.first, n.alive = cmd, stdin
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		defer n.PowerOff()
		return fmt.Errorf("its first process ended: %w; %s", err, tail(log.Name()))
	}
	if n.launcher, err = newLauncher(false, func() error { return enterNode(cmd.Process.Pid) }); err != nil {
		defer n.PowerOff()
		return err
	}
	n.Containerd().launcher, n.Kubelet().launcher = n.launcher, n.launcher
	return nil
}

// PowerOff ends everything on the node at once, as pulling its plug would.
func (n *Node) PowerOff() {
	if n.first == nil {
		return
	}
	_ = n.alive.Close()
	_ = n.first.Process.Kill() // the kernel kills all others with it
	_ = n.first.Wait()         // how it ended is known
	for _, c := range []*Component{n.Kubelet(), n.Containerd()} {
		if c.PID() != 0 {
			_ = c.Kill() // it ends by itself; this waits for it
		}
	}
	if n.launcher != nil {
		n.launcher.close()
	}
	n.first, n.launcher = nil, nil
}
