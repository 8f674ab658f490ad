package ledgertest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// someWarm has every figure in it but the size of its buffers.
func someWarm() modelspec.WarmPool {
	return modelspec.WarmPool{GPUHoursPerDay: 1.5, TimeZone: "Europe/Berlin", Classes: []modelspec.WarmClass{{
		Class: modelspec.ClassVision, Hot: 1, Buffers: 2,
		Schedules: []modelspec.WarmSchedule{{Days: []string{"Mon"}, From: "07:00", To: "11:00", Hot: 3, Buffers: 4}},
	}}}
}

func poolKeepsReady(t *testing.T, open Opener) {
	t.Parallel()
	b := setup(t, open, 8)
	warm := someWarm()
	got, err := b.SetWarm(b.ctx, "default", warm)
	b.ok(err)
	if want := warm.Canonical(); got.Cap != 8 || got.Warm == nil || !reflect.DeepEqual(*got.Warm, want) || want.Classes[0].GPUs != 1 {
		b.Fatalf("the pool is %+v with %+v, want %+v", got, got.Warm, want)
	}
	b.ok(b.KeepWarmDay(b.ctx, "default", `{"day":"2026-11-30","spent":12.5}`))
	b.ok(b.KeepWarmDay(b.ctx, "nowhere", `{}`))
	_, err = b.SetPool(b.ctx, "default", 9)
	b.ok(err)
	pools, err := b.Pools(b.ctx)
	b.ok(err)
	if p := pools[0]; p.Cap != 9 || !reflect.DeepEqual(p.Warm, got.Warm) || p.WarmDay != `{"day":"2026-11-30","spent":12.5}` {
		b.Fatalf("after another cap the pool is %+v", p)
	}
	if b.KeepWarmDay(b.ctx, "default", "no JSON") == nil || b.KeepWarmDay(b.ctx, "default", `"`+strings.Repeat("x", budget.MaxWarmDay)+`"`) == nil {
		b.Fatal("a day that is none, or too long, was kept")
	}
	_, err = b.SetWarm(b.ctx, "nowhere", warm)
	b.is(err, budget.ErrNotFound)
	warm.Classes[0].Hot = -1
	var wrong *modelspec.FieldError
	if _, err = b.SetWarm(b.ctx, "default", warm); !errors.As(err, &wrong) || wrong.Field != "classes[0].hot" {
		b.Fatalf("got %v", err)
	}
	if got, err = b.SetWarm(b.ctx, "default", modelspec.WarmPool{}); err != nil || got.Warm != nil {
		b.Fatalf("a pool that keeps nothing is %+v, %v", got, err)
	}
}
