package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// unified says whether the machine has cgroup v2 alone.
func unified() bool {
	var fs unix.Statfs_t
	return unix.Statfs(cgroupRoot, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies are the folders below which control groups are made: one with
// cgroup v2, one per controller with v1.
func hierarchies() ([]string, error) {
	if unified() {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroupRoot, e.Name())
		// "cpu" may be a link to "cpu,cpuacct"; every hierarchy is wanted once.
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no control groups are mounted at %s; a real node needs them (inside a container, give it the machine's)", cgroupRoot)
	}
	return dirs, nil
}

// makeCgroup makes the control group below which a node's Pods live.
func makeCgroup(name string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	if unified() {
		if err := delegate(cgroupRoot); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		group := filepath.Join(dir, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the control group %s: %w", group, err)
		}
		if err := inheritCPUs(dir, group); err != nil {
			return err
		}
	}
	if unified() {
		return delegate(filepath.Join(cgroupRoot, name))
	}
	return nil
}

// delegate gives the groups below dir every controller that dir has.
func delegate(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list the controllers of %s: %w", dir, err)
	}
	for _, controller := range strings.Fields(string(controllers)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("%s has processes of its own, so its controllers cannot be passed on; inside a container, move them to a group below first, or start the container with --cgroupns=host", dir)
		}
		// Kubelets need these; others, such as rdma or misc, may be refused.
		if err != nil && strings.Contains(" cpu cpuset memory pids ", " "+controller+" ") {
			return fmt.Errorf("pass on the controller %s of %s: %w", controller, dir, err)
		}
	}
	return nil
}

// inheritCPUs fills in what a v1 cpuset starts without: it takes no process
// before that.
func inheritCPUs(parent, group string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) || unified() {
			continue // no cpuset here, or one that inherits by itself
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(group, file), value, 0o600)
		}
		if err != nil {
			return fmt.Errorf("give %s its %s: %w", group, file, err)
		}
	}
	return nil
}

// removeCgroup removes the group with everything below it, and first ends
// processes that are still inside: they can only be this cluster's.
func removeCgroup(ctx context.Context, name string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	return waitFor(ctx, freeWait, func(context.Context) error {
		var errs []error
		for _, dir := range dirs {
			errs = append(errs, removeTree(filepath.Join(dir, name)))
		}
		return errors.Join(errs...)
	})
}

func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the control group %s: %w", group, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(group, e.Name())); err != nil {
				return err
			}
		}
	}
	procs, _ := os.ReadFile(filepath.Join(group, "cgroup.procs")) // unreadable means gone
	for _, field := range strings.Fields(string(procs)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
		}
	}
	if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the control group: %w", err)
	}
	return nil
}
