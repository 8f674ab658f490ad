package sqlledger

import (
	"context"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/mysqlquery"
)

// newsEvery is how often other processes' changes are looked for. The
// question reads one short row per writer.
const newsEvery = 250 * time.Millisecond

// news hears of what other processes commit.
type news struct {
	cancel  context.CancelFunc
	stopped chan struct{}
}

// followOthers tells OnChange when another process has changed something.
func (l *Ledger) followOthers(own map[string]bool) *news {
	ctx, cancel := context.WithCancel(context.Background())
	n := &news{cancel: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(n.stopped)
		tick := time.NewTicker(newsEvery)
		defer tick.Stop()
		var known map[string]int64
		for {
			known = l.readNews(ctx, own, known)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return n
}

// readNews compares the other writers' numbers with those known, nil before
// the first look. A writer that is gone may have changed something just before.
func (l *Ledger) readNews(ctx context.Context, own map[string]bool, known map[string]int64) map[string]int64 {
	rows, err := mysqlquery.New(l.read).ReadNews(ctx)
	if err != nil {
		l.opts.Logger.Debug("other processes' changes cannot be looked for", "error", err)
		return known // whatever happens meanwhile is noticed afterwards
	}
	now, moved := make(map[string]int64, len(rows)), false
	for _, r := range rows {
		if own[r.Writer] {
			continue
		}
		now[r.Writer] = r.Changes
		moved = moved || known[r.Writer] != r.Changes
		delete(known, r.Writer)
	}
	if known == nil { // a process that begins has read nothing that could be old
		return now
	}
	if moved || len(known) > 0 {
		l.opts.OnChange(budget.Change{Topic: budget.TopicElsewhere})
	}
	return now
}

func (n *news) close() {
	n.cancel()
	<-n.stopped
}
