package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
)

// Endpoints of the gateways that answer are shown, and that one does not
// answer is said: what it sees is not known to be nothing.
func TestAnUnreadGatewayIsSaid(t *testing.T) {
	t.Parallel()
	ref := budget.Ref{Tenant: "team-a", ID: "demo"}
	sees := func(context.Context) (trafficView, error) {
		return trafficView{Endpoints: []traffic.Endpoint{{UID: "p1", Owner: "team-a", RequestID: "demo"}}}, nil
	}
	away := func(context.Context) (trafficView, error) {
		return trafficView{Endpoints: []traffic.Endpoint{{UID: "half"}}}, errors.New("connection refused")
	}
	for name, c := range map[string]struct {
		sources []viewSource
		seen    int
		unread  bool
	}{
		"all answer":    {[]viewSource{sees, sees}, 1, false},
		"one is away":   {[]viewSource{away, sees}, 1, true},
		"all are away":  {[]viewSource{away, away}, 0, true},
		"none is known": {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			views := &trafficViews{sources: c.sources, clock: time.Now, log: slog.New(slog.DiscardHandler)}
			for range 2 { // asked, and remembered
				seen, err := views.Endpoints(ref)
				if len(seen) != c.seen || (err != nil) != c.unread {
					t.Fatalf("seen %+v, %v", seen, err)
				}
				if err != nil && !strings.Contains(err.Error(), "connection refused") {
					t.Errorf("it does not say why: %v", err)
				}
			}
		})
	}
}
