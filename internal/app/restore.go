package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget/backup"
)

// restorer is what the API asks to bring a ledger back.
type restorer struct{ p *platform }

// Import takes a copy of a ledger in. On success the running platform works
// for that ledger: objects that it delivered from this data directory are its
// own again.
func (r restorer) Import(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error) {
	p := r.p
	p.age.Lock()
	defer p.age.Unlock()
	// 1. The whole document is judged before anything stands still for it.
	reader := backup.NewReader(doc)
	head, err := reader.Head()
	if err != nil {
		return backup.Contents{}, err
	}
	contents, err := backup.Check(head, reader.Rows())
	if err != nil {
		return contents, err
	}
	before, _, err := p.ledger.Identity(ctx)
	if err != nil {
		return contents, fmt.Errorf("read the ledger's identity: %w", err)
	}
	if why := p.doubt.Halted(); why != "" {
		return contents, api.Conflict("nothing is imported while this ledger stands still: " + why)
	}
	n, err := p.ownObjects(ctx, before)
	if err != nil {
		return contents, err
	}
	if n > 0 {
		return contents, api.Conflict(fmt.Sprintf("this ledger still has %d objects here, and a copy goes only into a new one: start ModelDock with an empty data directory and import there", n))
	}
	// 2. Nothing acts on the ledger while it changes under it; and who began
	// this waits for its end, also when the caller has left.
	ctx = context.WithoutCancel(ctx)
	p.doubt.Halt("a ledger is being imported; this takes moments")
	if err := p.ledger.Import(ctx, head, reader.Rows(), keep); err != nil {
		after, _, lost := p.ledger.Identity(ctx)
		if lost != nil || after == before {
			p.goOn(ctx)
			return contents, errors.Join(err, lost)
		}
		p.log.Warn("the import took effect, its answer was lost", "error", err)
	}
	// 3. From here on everything works for the imported one.
	if err := p.adopt(ctx, head.Incarnation); err != nil {
		return contents, fmt.Errorf("the ledger was imported, but ModelDock must be restarted to work for it: %w", err)
	}
	p.log.Info("a ledger was imported", "incarnation", head.Incarnation, "journal", head.JournalSeq, "requests", contents.Reservations, "exported", head.At)
	return contents, p.checkAgeLocked(ctx)
}

func (p *platform) ownObjects(ctx context.Context, incarnation string) (int, error) {
	objects, err := p.target.List(ctx)
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
func (p *platform) adopt(ctx context.Context, incarnation string) error {
	if err := p.target.Adopt(incarnation); err != nil {
		p.doubt.Halt("another ledger was imported and ModelDock does not work for it yet: restart it")
		p.health.report(ctx, "restore", p.stillStanding())
		return err
	}
	p.relay.Adopt(incarnation)
	p.settler.Adopt(incarnation)
	p.reconcile.Adopt(incarnation)
	return nil
}
