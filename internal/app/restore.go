package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/delivery/local"
)

// restorer is what the API asks to bring a ledger back.
type restorer struct {
	c *control
	// machine has the objects; nil in a process that delivers to another's.
	machine *local.Target
}

// Import takes a copy of a ledger in. On success the running platform works
// for that ledger: objects that it delivered from this data directory are its
// own again.
func (r restorer) Import(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error) {
	c := r.c
	if r.machine == nil {
		return backup.Contents{}, api.Conflict("a ledger is imported through the management API of `modeldock up`, whose process has the objects")
	}
	c.age.Lock()
	defer c.age.Unlock()
	// 1. The whole document is judged before anything stands still for it.
	reader := backup.NewReader(doc)
	head, err := reader.Head()
	if err != nil {
		return backup.Contents{}, err
	}
	contents, err := backup.Check(head, reader.Rows(), c.clock())
	if err != nil {
		return contents, err
	}
	before, _, err := c.ledger.Identity(ctx)
	if err != nil {
		return contents, fmt.Errorf("read the ledger's identity: %w", err)
	}
	if why := c.doubt.Halted(); why != "" {
		return contents, api.Conflict("nothing is imported while this ledger stands still: " + why)
	}
	n, err := c.ownObjects(ctx, before)
	if err != nil {
		return contents, err
	}
	if n > 0 {
		return contents, api.Conflict(fmt.Sprintf("this ledger still has %d objects here, and a copy goes only into a new one: start ModelDock with an empty data directory and import there", n))
	}
	// 2. Nothing acts on the ledger while it changes under it; and who began
	// this waits for its end, also when the caller has left.
	ctx = context.WithoutCancel(ctx)
	c.doubt.Halt("a ledger is being imported; this takes moments")
	if err := c.ledger.Import(ctx, head, backup.Imported(reader.Rows()), keep); err != nil {
		after, _, lost := c.ledger.Identity(ctx)
		if lost != nil || after == before {
			c.goOn(ctx)
			return contents, errors.Join(err, lost)
		}
		c.log.Warn("the import took effect, its answer was lost", "error", err)
	}
	// 3. From here on everything works for the imported one.
	if err := r.adopt(ctx, head.Incarnation); err != nil {
		return contents, fmt.Errorf("the ledger was imported, but ModelDock must be restarted to work for it: %w", err)
	}
	c.log.Info("a ledger was imported", "incarnation", head.Incarnation, "journal", head.JournalSeq, "requests", contents.Reservations, "exported", head.At)
	return contents, c.checkAgeLocked(ctx)
}

func (c *control) ownObjects(ctx context.Context, incarnation string) (int, error) {
	objects, err := c.target.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the objects: %w", err)
	}
	n := 0
	for _, st := range objects {
		if st.Ledger == incarnation {
			n++
		}
	}
	return n, nil
}

// adopt hands the new incarnation to all that carry it, while rounds are halted.
func (r restorer) adopt(ctx context.Context, incarnation string) error {
	if err := r.machine.Adopt(incarnation); err != nil {
		r.c.doubt.Halt("another ledger was imported and ModelDock does not work for it yet: restart it")
		r.c.health.report(ctx, "restore", r.c.stillStanding())
		return err
	}
	r.c.adoptAccounts(incarnation)
	return nil
}

func (c *control) adoptAccounts(incarnation string) {
	c.relay.Adopt(incarnation)
	c.settler.Adopt(incarnation)
	c.reconcile.Adopt(incarnation)
	c.age.incarnation, c.age.older = incarnation, false
	c.age.seen.Store(0)
}
