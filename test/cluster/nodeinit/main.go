// Command nodeinit is the first process of a node and of every Pod sandbox.
//
// As a node's first process it makes the mounts that this node alone sees,
// prints "ready", and stays until its standard input ends, which is when the
// process that started it has died. With it the kernel ends every process of
// the node's PID namespace, and its mounts go with the last of them.
//
// Without arguments it is the "pause" of a Pod: it holds the namespaces and
// waits for its end.
//
// It uses the standard library alone, so that it is built from this one file.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	// Orphans come to the first process; ignoring this signal buries them.
	signal.Ignore(syscall.SIGCHLD)
	if len(os.Args) > 1 {
		if err := node(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "nodeinit:", err)
			os.Exit(1)
		}
		return
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}

// node mounts each "source:target" and waits.
func node(binds []string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep this node's mounts to itself: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc of this PID namespace: %w", err)
	}
	for _, bind := range binds {
		source, target, ok := strings.Cut(bind, ":")
		if !ok {
			return fmt.Errorf("mount %q: want source:target", bind)
		}
		if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", source, target, err)
		}
		// Volumes with mount propagation ask for a shared mount below them.
		if err := syscall.Mount("", target, "", syscall.MS_SHARED, ""); err != nil {
			return fmt.Errorf("share %s within the node: %w", target, err)
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
