package sqlledger

import (
	"context"
	"fmt"

	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// homeKey names the row that says where this ledger's models run.
const homeKey = "home"

// Home binds the ledger to the one place that its models run at, and returns
// the place that it is bound to: the first caller's, for good. Two places
// would each start what the other one runs already. With move the place is
// changed; the caller makes sure that nothing runs at the old one any more.
func (l *Ledger) Home(ctx context.Context, place string, move bool) (string, error) {
	return change(ctx, l, "bind the ledger to "+place, func(ctx context.Context, t *transaction) (string, error) {
		if move {
			if err := t.q.DropMeta(ctx, homeKey); err != nil {
				return "", fmt.Errorf("forget the old place: %w", err)
			}
		}
		if err := t.q.PutMetaOnce(ctx, sqlitequery.PutMetaOnceParams{Name: homeKey, Value: place}); err != nil {
			return "", fmt.Errorf("store the place: %w", err)
		}
		return t.q.GetMeta(ctx, homeKey)
	})
}
