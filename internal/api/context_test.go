package api

import (
	"context"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// watched notes calls that got a gin.Context.
type watched struct {
	*sqlledger.Ledger
	mu  sync.Mutex
	bad map[string]bool
}

func (w *watched) saw(ctx context.Context, call string) {
	if _, reused := ctx.(*gin.Context); reused {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bad[call] = true
	}
}

func (w *watched) Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	w.saw(ctx, "Get")
	return w.Ledger.Get(ctx, ref)
}

func (w *watched) List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error) {
	w.saw(ctx, "List")
	return w.Ledger.List(ctx, f)
}

func (w *watched) Standing(ctx context.Context, ref budget.Ref) (budget.Standing, error) {
	w.saw(ctx, "Standing")
	return w.Ledger.Standing(ctx, ref)
}

func (w *watched) Binding(ctx context.Context, ref budget.Ref) (budget.Binding, error) {
	w.saw(ctx, "Binding")
	return w.Ledger.Binding(ctx, ref)
}

func (w *watched) Tenants(ctx context.Context) ([]budget.Tenant, error) {
	w.saw(ctx, "Tenants")
	return w.Ledger.Tenants(ctx)
}

func (w *watched) Tenant(ctx context.Context, name string) (budget.Tenant, error) {
	w.saw(ctx, "Tenant")
	return w.Ledger.Tenant(ctx, name)
}

func (w *watched) Grants(ctx context.Context) ([]budget.Grant, error) {
	w.saw(ctx, "Grants")
	return w.Ledger.Grants(ctx)
}

func (w *watched) Journal(ctx context.Context, ref budget.Ref) ([]budget.Entry, error) {
	w.saw(ctx, "Journal")
	return w.Ledger.Journal(ctx, ref)
}

func (w *watched) Submit(ctx context.Context, s budget.Submission) (budget.Reservation, error) {
	w.saw(ctx, "Submit")
	return w.Ledger.Submit(ctx, s)
}

// A gin.Context serves the next request while a database driver may still
// watch it: nothing below the handlers may get it.
func TestNobodyGetsTheReusedContext(t *testing.T) {
	t.Parallel()
	w := &watched{bad: map[string]bool{}}
	b := setup(t, manual, func(c *Config) {
		w.Ledger, _ = c.Ledger.(*sqlledger.Ledger)
		c.Ledger = w
	})
	story(b)
	for _, c := range calls() {
		b.ask(b.admin, c.method, c.path, c.body).is(c.status)
	}
	if len(w.bad) > 0 {
		t.Errorf("called with a gin.Context: %v", w.bad)
	}
}
