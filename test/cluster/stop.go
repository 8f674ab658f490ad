package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stopWait bounds a whole Stop.
const stopWait = time.Minute

// Stop ends every process, frees the machine of everything that the cluster
// made, and removes its folder if that was temporary; in a folder that was
// given, the logs stay. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	components := c.components
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	// Nothing is to be saved: kill at once, the store last so that nobody
	// complains about it in the logs.
	for _, node := range c.nodes {
		node.PowerOff()
	}
	for _, component := range components {
		if component.guest && component.PID() != 0 {
			_ = component.Kill() // it may have ended by itself
		}
	}
	for _, name := range []string{Kwok, Scheduler, ControllerManager, APIServer, Etcd} {
		if component := components[name]; component != nil && component.PID() != 0 {
			_ = component.Kill() // it may have ended by itself
		}
	}
	if c.host != nil {
		c.host.close()
	}
	if c.record == nil {
		return nil
	}
	// The record goes last: whoever does not find it may use the folder.
	return c.registry.locked(func() error {
		return errors.Join(c.leaveDir(), c.registry.release(ctx, c.record))
	})
}

// leaveDir leaves the logs in a folder that was given; a temporary one is gone
// with the record.
func (c *Cluster) leaveDir() error {
	if c.record.Temporary {
		return nil
	}
	var errs []error
	for _, name := range contents() {
		if name != "logs" {
			errs = append(errs, os.RemoveAll(filepath.Join(c.Dir, name)))
		}
	}
	return errors.Join(errs...)
}

// Logs is the end of every component's log, for the output of a failed test.
func (c *Cluster) Logs() string {
	var text strings.Builder
	names, _ := filepath.Glob(filepath.Join(c.Dir, "logs", "*.log")) // the pattern is well formed
	for _, name := range names {
		if name != auditLog(c.Dir) {
			fmt.Fprintf(&text, "--- %s\n%s\n", name, tail(name))
		}
	}
	return text.String()
}
