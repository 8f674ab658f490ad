package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// freeWait bounds how long the kernel may take to let go of what dead
// processes held.
const freeWait = 20 * time.Second

// living frees what dead clusters left behind and returns the others. It needs
// the registry's lock.
func (r registry) living(ctx context.Context) ([]*record, error) {
	records, err := r.all()
	if err != nil {
		return nil, err
	}
	var alive, dead []*record
	for _, rec := range records {
		if rec.Owner.alive() {
			alive = append(alive, rec)
		} else {
			dead = append(dead, rec)
		}
	}
	for _, rec := range dead {
		if err := r.free(ctx, rec, alive); err != nil {
			return nil, fmt.Errorf("clean up after the cluster that was in %s: %w", rec.Dir, err)
		}
	}
	return alive, nil
}

// release frees the machine of one living cluster. It needs the registry's lock.
func (r registry) release(ctx context.Context, rec *record) error {
	others, err := r.all()
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(other *record) bool { return other.ID == rec.ID || !other.Owner.alive() })
	return r.free(ctx, rec, others)
}

// free takes back everything that a record names, and then the record. What is
// gone already is no error.
func (r registry) free(ctx context.Context, rec *record, others []*record) error {
	// 1. Processes. They die with their parent, so none should be left.
	for _, p := range rec.Components {
		if p.alive() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended just now
		}
	}
	err := waitFor(ctx, freeWait, func(context.Context) error {
		for name, p := range rec.Components {
			if p.alive() {
				return fmt.Errorf("%s (process %d) does not end", name, p.PID)
			}
		}
		return nil
	})
	// 2. What they used: control groups with whatever is still inside, the
	// bridge, and folders that were made for mounts.
	for _, name := range rec.Cgroups {
		err = errors.Join(err, removeCgroup(ctx, name))
	}
	if rec.Bridge != "" {
		err = errors.Join(err, closeFirewall(ctx, rec.Bridge), removeBridge(ctx, rec.Bridge))
	}
	err = errors.Join(err, restoreSysctls(rec, others))
	if err != nil {
		return err // the record stays, and the next Start tries again
	}
	// Another cluster's nodes may have mounts there, and these folders are in its
	// record, too; removing a folder would take such a mount away.
	if !slices.ContainsFunc(others, func(other *record) bool { return other.Bridge != "" }) {
		for _, dir := range rec.MadeDirs {
			_ = os.Remove(dir) // only where it is empty
		}
	}
	if rec.Temporary {
		if err := os.RemoveAll(rec.Dir); err != nil {
			return fmt.Errorf("remove the cluster's folder: %w", err)
		}
	}
	return r.remove(rec)
}
