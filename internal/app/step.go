package app

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
)

// crashPoint ends the process the hard way at a named point, once armed by
// `modeldock step --crash-before`, so that recovery can be watched.
type crashPoint struct{ armed atomic.Pointer[string] }

func (c *crashPoint) at(point string) {
	if p := c.armed.Load(); p != nil && *p == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// stepper runs one round of a loop that stands still under --manual.
type stepper struct{ c *control }

// Step runs at most count rows of what; with crashBefore the process ends at
// that point of the round.
func (s stepper) Step(ctx context.Context, what string, count int, crashBefore string) ([]openapi.StepDone, error) {
	if crashBefore != "" {
		s.c.crash.armed.Store(&crashBefore)
		defer s.c.crash.armed.Store(nil)
	}
	if err := s.c.stillStanding(); err != nil {
		return nil, api.Conflict(err.Error())
	}
	switch what {
	case "admit":
		return s.admit(ctx, count)
	case "deliver":
		sum, err := s.c.relay.Round(ctx, count)
		return done(sum), err
	case "release":
		sum, err := s.c.settler.Round(ctx, count)
		return done(sum), err
	default:
		sum, err := s.c.reconcile.Round(ctx)
		return done(sum), err
	}
}

func (s stepper) admit(ctx context.Context, count int) ([]openapi.StepDone, error) {
	end, ok := s.c.doubt.Begin()
	if !ok {
		return nil, api.Conflict(s.c.doubt.Halted())
	}
	defer end()
	expired, err := s.c.ledger.Expire(ctx)
	if err != nil {
		return nil, fmt.Errorf("expire: %w", err)
	}
	admitted, err := s.c.ledger.Admit(ctx, count)
	if err != nil {
		return nil, fmt.Errorf("admit: %w", err)
	}
	var out []openapi.StepDone
	for _, r := range expired {
		out = append(out, openapi.StepDone{Tenant: r.Tenant, Id: r.ID, Did: "expired"})
	}
	for _, r := range admitted {
		detail := fmt.Sprintf("%d slots of pool %s; intent apply written", r.Held, r.Pool)
		out = append(out, openapi.StepDone{Tenant: r.Tenant, Id: r.ID, Did: "reserved", Detail: &detail})
	}
	return out, nil
}
