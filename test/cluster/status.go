package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Status is what is known of a cluster from outside the process that runs it.
type Status struct {
	Dir        string
	PID        int // the process that runs it; with it, everything ends
	Components []ComponentStatus
}

// ComponentStatus is one program of it.
type ComponentStatus struct {
	Name  string
	PID   int
	Alive bool
}

// Running returns the cluster that runs in a folder, and false where none does.
func Running(dir string) (Status, bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Status{}, false, fmt.Errorf("find the cluster's folder: %w", err)
	}
	r, err := openRegistry()
	if err != nil {
		return Status{}, false, err
	}
	records, err := r.all()
	if err != nil {
		return Status{}, false, err
	}
	for _, rec := range records {
		if rec.Dir != dir || !rec.Owner.alive() {
			continue
		}
		s := Status{Dir: dir, PID: rec.Owner.PID}
		for _, name := range slices.Sorted(maps.Keys(rec.Components)) {
			p := rec.Components[name]
			s.Components = append(s.Components, ComponentStatus{name, p.PID, p.alive()})
		}
		return s, true, nil
	}
	return Status{}, false, nil
}

// CleanUp frees the machine of what clusters left whose process was killed.
// Start does so by itself.
func CleanUp(ctx context.Context) error {
	r, err := openRegistry()
	if err != nil {
		return err
	}
	return r.locked(func() error {
		_, err := r.living(ctx)
		return err
	})
}
