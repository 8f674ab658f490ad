package ledgertest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// someLimits has every figure in it.
func someLimits() budget.Limits {
	most := 0
	return budget.Limits{
		RequestsPerMinute: 600, TokensPerMinute: 50_000, Concurrency: 8, TokensPerDay: 1_000_000,
		PerKey: &budget.Rates{Concurrency: 2}, WindowSeconds: 10, MaxPriority: &most, MaxClass: budget.ClassBatch,
	}
}

func runQuota(t *testing.T, open Opener) {
	t.Run("caps and allow lists", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 8)
		b.quota("team-b", 3)
		got, err := b.SetEngines(b.ctx, "team-a", []string{"*", "hf://org/"})
		b.ok(err)
		equal(b, "cap of a new tenant", got.Cap, 0)
		got, err = b.SetPools(b.ctx, "team-a", []string{"fast"})
		b.ok(err)
		if !slices.Equal(got.Engines, []string{"*", "hf://org/"}) || !slices.Equal(got.Pools, []string{"fast"}) {
			b.Fatalf("allow lists are %v and %v", got.Engines, got.Pools)
		}
		b.quota("team-a", 2)
		got, err = b.Tenant(b.ctx, "team-a")
		b.ok(err)
		equal(b, "cap", got.Cap, 2)
		equal(b, "engines", len(got.Engines), 2)
		all, err := b.Tenants(b.ctx)
		b.ok(err)
		equal(b, "tenants", len(all), 2)
		equal(b, "first by name", all[0].Name, "team-a")
		b.pool("another", 1)
		pools, err := b.Pools(b.ctx)
		b.ok(err)
		equal(b, "pools", len(pools), 2)
		equal(b, "first by name", pools[0], budget.Pool{Name: "another", Cap: 1})
		got, err = b.SetLimits(b.ctx, "team-a", someLimits())
		b.ok(err)
		if want := someLimits(); !reflect.DeepEqual(got.Limits, want) || got.Cap != 2 || len(got.Pools) != 1 {
			b.Fatalf("with limits the tenant is %+v", got)
		}
		_, err = b.SetLimits(b.ctx, "team-new", budget.Limits{})
		b.ok(err)
		if got, err = b.Tenant(b.ctx, "team-new"); err != nil || !reflect.DeepEqual(got.Limits, budget.Limits{}) {
			b.Fatalf("a tenant without limits is %+v, %v", got, err)
		}
		_, err = b.Tenant(b.ctx, "team-c")
		b.is(err, budget.ErrNotFound)
	})
	t.Run("what a pool keeps ready", func(t *testing.T) { poolKeepsReady(t, open) })
	t.Run("the usage is one moment of figures and entries", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 8)
		b.quota("team-a", 5)
		first := b.reserved("one", 1)
		b.clock.Advance(time.Minute)
		second := b.reserved("two", 3)
		u, err := b.Usage(b.ctx, 2)
		b.ok(err)
		if len(u.Entries) != 2 || u.Entries[0].ID != "two" || u.Entries[1].ID != "one" || !u.Whole {
			b.Fatalf("entries are %+v (whole: %v)", u.Entries, u.Whole)
		}
		tenants, pools, _ := u.Courses(first.ReservedAt)
		want := []budget.Point{{At: first.ReservedAt, Used: 1}, {At: second.ReservedAt, Used: 4}}
		if !reflect.DeepEqual(tenants[0].Points, want) || !reflect.DeepEqual(pools[0].Points, want) {
			b.Fatalf("courses are %+v and %+v, want %+v", tenants, pools, want)
		}
		if u, err = b.Usage(b.ctx, 1); err != nil || len(u.Entries) != 1 || u.Whole {
			b.Fatalf("asked for the newest alone: %+v, %v", u, err)
		}
		equal(b, "newest", u.Entries[0].ID, "two")
	})
	t.Run("refused settings change nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 8)
		b.quota("team-a", 3)
		for field, set := range map[string]func() error{
			"cap":                func() error { _, err := b.SetQuota(b.ctx, "team-a", -1); return err },
			"tenant":             func() error { _, err := b.SetQuota(b.ctx, "team a", 1); return err },
			"pool":               func() error { _, err := b.SetPool(b.ctx, "", 1); return err },
			"maxClass":           func() error { return limits(b, budget.Limits{MaxClass: "first"}) },
			"perKey.concurrency": func() error { return limits(b, budget.Limits{PerKey: &budget.Rates{Concurrency: -1}}) },
			"windowSeconds":      func() error { return limits(b, budget.Limits{WindowSeconds: budget.MaxWindowSeconds + 1}) },
			"allow":              func() error { _, err := b.SetEngines(b.ctx, "team-a", []string{""}); return err },
		} {
			var wrong *modelspec.FieldError
			if err := set(); !errors.As(err, &wrong) || wrong.Field != field {
				b.Fatalf("got %v, want an error of field %s", err, field)
			}
		}
		_, err := b.SetPool(b.ctx, "default", budget.MaxCap+1)
		if err == nil {
			b.Fatal("a cap beyond the largest was accepted")
		}
		got, err := b.Tenant(b.ctx, "team-a")
		b.ok(err)
		equal(b, "cap", got.Cap, 3)
	})
}

func limits(b *bundle, l budget.Limits) error {
	_, err := b.SetLimits(b.ctx, "team-a", l)
	return err
}
