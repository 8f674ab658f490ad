package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// claim frees what dead clusters left, takes a folder, a name and addresses,
// and writes them down.
func (c *Cluster) claim(ctx context.Context) error {
	return c.registry.locked(func() error {
		others, err := c.registry.living(ctx)
		if err != nil {
			return err
		}
		if err := c.takeDir(others); err != nil {
			return err
		}
		id := newID()
		c.record = &record{ID: id, Dir: c.Dir, Temporary: c.options.Dir == "", Owner: processOf(os.Getpid()), Block: -1, Components: make(map[string]process)}
		if c.options.Nodes == 0 {
			return c.registry.write(c.record)
		}
		if c.record.Block, err = freeBlock(others); err != nil {
			return err
		}
		c.record.Bridge = "md" + id
		for i := range c.options.Nodes {
			c.record.Cgroups = append(c.record.Cgroups, "modeldock-"+id+"-"+nodeName(i))
		}
		if err := prepareMachine(c.record, others, c.registry.write); err != nil {
			return err
		}
		if err := makeBridge(ctx, c.record.Bridge, block(c.record.Block), c.options.Nodes); err != nil {
			return err
		}
		return openFirewall(ctx, c.record.Bridge)
	})
}

func newID() string {
	bytes := make([]byte, 4)
	_, _ = rand.Read(bytes) // it never fails
	return hex.EncodeToString(bytes)
}

// contents are what a cluster makes in its folder, and removes from it.
func contents() []string {
	return []string{"etcd", "logs", "pki", "users", "nodes", "images", "kubeconfig", "kubectl", "scheduler.yaml", "stages.yaml", auditPolicyFile}
}

func (c *Cluster) takeDir(others []*record) error {
	var err error
	if c.options.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "cluster-"); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	} else if c.Dir, err = filepath.Abs(c.options.Dir); err != nil {
		return fmt.Errorf("find the cluster's folder: %w", err)
	}
	for _, other := range others {
		if other.Dir == c.Dir {
			return fmt.Errorf("start a cluster in %s: one runs there already, started by process %d", c.Dir, other.Owner.PID)
		}
	}
	if err := claimDir(c.Dir); err != nil {
		return err
	}
	if err := removeContents(c.Dir); err != nil {
		return err
	}
	for _, name := range []string{"logs", "pki", "users", "nodes", "images"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, name), 0o700); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	}
	return nil
}

const (
	dirMarker     = ".modeldock-cluster" // is in every folder that a cluster has had
	supervisorLog = "supervisor.log"     // is written before the cluster starts
)

// claimDir refuses a folder with somebody else's files, some of which may have
// the names of ours.
func claimDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look into the cluster's folder: %w", err)
	}
	marked := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == dirMarker })
	for _, e := range entries {
		if !marked && e.Name() != supervisorLog {
			return fmt.Errorf("start a cluster in %s: it has files (such as %s) that are not a cluster's; name an empty folder or a new one", dir, e.Name())
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, dirMarker), nil, 0o600); err != nil {
		return fmt.Errorf("mark the cluster's folder: %w", err)
	}
	return nil
}

func removeContents(dir string) error {
	for _, name := range contents() {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what an earlier cluster left: %w", err)
		}
	}
	return nil
}

func writeFiles(files map[string]string) error {
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write a configuration file: %w", err)
		}
	}
	return nil
}
