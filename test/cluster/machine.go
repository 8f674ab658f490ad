package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// sharedPaths have the same name on every node: they are compiled into the
// kubelet, the container runtime and its shim. Each node mounts folders of its
// own there, seen by its processes alone.
func sharedPaths() []string {
	return []string{"/var/lib/kubelet", "/var/log/containers", "/run/containerd"}
}

// kubeletSysctls are the kernel settings that a kubelet changes at its start.
func kubeletSysctls() []string {
	return []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}
}

// prepareMachine makes the folders that nodes mount over, and remembers them
// and the kernel's settings in the record. What other clusters have changed is
// taken from their records: the last cluster puts everything back. It needs
// the registry's lock.
func prepareMachine(rec *record, others []*record, write func(*record) error) error {
	for _, other := range others {
		rec.MadeDirs = append(rec.MadeDirs, other.MadeDirs...)
		if rec.Sysctls == nil {
			rec.Sysctls = maps.Clone(other.Sysctls)
		}
	}
	if rec.Sysctls == nil {
		rec.Sysctls = readSysctls()
	}
	for _, dir := range sharedPaths() {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !slices.Contains(rec.MadeDirs, dir) {
			rec.MadeDirs = append(rec.MadeDirs, dir)
		}
	}
	if err := write(rec); err != nil {
		return err
	}
	for _, dir := range sharedPaths() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the folder that nodes mount over: %w", err)
		}
	}
	return nil
}

func readSysctls() map[string]string {
	values := make(map[string]string)
	for _, name := range kubeletSysctls() {
		// A kernel without the setting has nothing to put back.
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			values[name] = strings.TrimSpace(string(value))
		}
	}
	return values
}

// restoreSysctls puts back what kubelets changed, unless another cluster has one.
func restoreSysctls(rec *record, others []*record) error {
	for _, other := range others {
		if len(other.Sysctls) > 0 {
			return nil
		}
	}
	var errs []error
	for name, before := range rec.Sysctls {
		path := filepath.Join("/proc/sys", name)
		now, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(now)) == before {
			continue
		}
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			errs = append(errs, fmt.Errorf("put back the kernel setting %s=%s: %w", name, before, err))
		}
	}
	return errors.Join(errs...)
}

// mayRaiseOOMScore says whether this process has CAP_SYS_RESOURCE, without
// which no container gets a better out-of-memory score than its parent.
func mayRaiseOOMScore() bool {
	const sysResource = 24
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(status), "\nCapEff:")
	var mask uint64
	if _, err := fmt.Sscanf(after, "%x", &mask); err != nil {
		return false
	}
	return mask&(1<<sysResource) != 0
}

// snapshotter is the container runtime's store of layers: overlayfs, unless the
// folder lies on an overlay itself, as inside a container.
func snapshotter(dir string) string {
	const overlayMagic = 0x794c7630
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil && fs.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}
