package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

const (
	caller  = "team-a"
	running = "running" // the model that is called all the time
)

// TestOutages: while a model runs and is called, the API server, the database,
// and all controllers are away for a while, one after the other, and a gateway
// starts anew without any controller. No call of the running model fails, what
// was asked for meanwhile is done afterwards, and nothing is spent or given
// back twice.
func TestOutages(t *testing.T) {
	t.Parallel()
	b := setup(t, cluster.Options{}, dock.Options{TenantCap: 4, Flags: []string{"--reconcile-every", "2s"}})
	// A stream takes two seconds, so that one is always under way.
	b.submit(caller, running, map[string]any{"args": []string{"--token-time=50ms", "--tokens=40"}})
	b.until(caller, running, "readiness", ready)
	b.answers(running)
	for _, outage := range []struct {
		name string
		run  func(*bundle, string)
	}{
		{"API server", (*bundle).withoutAPIServer},
		{"database", (*bundle).withoutDatabase},
		{"controllers", (*bundle).withoutControllers},
	} {
		ok := t.Run(outage.name, func(t *testing.T) { // one after the other: they share the cluster
			here := *b
			here.t = t
			began := time.Now()
			outage.run(&here, outage.name)
			t.Logf("everything is as before after %s", time.Since(began).Round(100*time.Millisecond))
		})
		if !ok {
			return // what comes next would only tell of the same
		}
	}
}

// away is how long something is away.
func away() time.Duration { return formOf(10*time.Second, time.Minute) }

// sit waits for the outage's time, which is the fault itself.
func (b *bundle) sit(began time.Time) {
	select {
	case <-b.t.Context().Done():
	case <-time.After(time.Until(began.Add(away()))):
	}
}

func (b *bundle) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// answers waits until the gateway serves a model.
func (b *bundle) answers(model string) {
	b.t.Helper()
	b.eventually("an answer of "+model, func(ctx context.Context) string {
		if err := chat(ctx, b.dock.Gateways[0].URL, b.dock.Keys[caller], model, true); err != nil {
			return err.Error()
		}
		return ""
	})
}

// withoutAPIServer: requests are reserved and releases taken meanwhile; both
// are carried out afterwards, the credit not before.
func (b *bundle) withoutAPIServer(name string) {
	b.t.Helper()
	b.submit(caller, "api-old", nil)
	b.until(caller, "api-old", "readiness", ready)
	calls := b.traffic(caller, running)
	began := time.Now()
	b.must(b.cluster.StopAPIServer())
	b.submit(caller, "api-new", nil)
	b.release(caller, "api-old")
	b.sit(began)
	old, err := b.record(b.t.Context(), caller, "api-old")
	if err != nil || old.State != "reserved" || old.Held != 1 {
		b.t.Errorf("a release is over before its Pod can have been seen gone: %+v, %v", old, err)
	}
	b.must(b.cluster.StartAPIServer(b.t.Context()))
	b.until(caller, "api-new", "readiness", ready)
	b.until(caller, "api-old", "release", released)
	b.converged("api", calls, name, "api-new", "api-old")
}

// withoutDatabase: nothing is accepted that could not be kept.
func (b *bundle) withoutDatabase(name string) {
	b.t.Helper()
	b.submit(caller, "db-old", nil)
	b.until(caller, "db-old", "readiness", ready)
	b.release(caller, "db-old") // under way while the database goes
	calls := b.traffic(caller, running)
	began := time.Now()
	b.must(b.dock.Database.Halt())
	err := b.as(caller, 0).Call(b.t.Context(), http.MethodPost, "/requests", map[string]any{"id": "db-new", "cost": 1, "priority": 50}, nil)
	var refused *management.RefusedError
	var none *management.NoAnswerError
	if !errors.As(err, &none) && (!errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable) {
		b.t.Errorf("a submit without a database is answered with %v, not with 503", err)
	}
	b.sit(began)
	b.must(b.dock.Database.Resume(b.t.Context()))
	b.eventually("a submit", func(ctx context.Context) string {
		if err := b.as(caller, 0).Call(ctx, http.MethodPost, "/requests", map[string]any{"id": "db-new", "cost": 1, "priority": 50}, nil); err != nil {
			return err.Error()
		}
		return ""
	})
	b.until(caller, "db-new", "readiness", ready)
	b.until(caller, "db-old", "release", released)
	b.converged("db", calls, name, "db-new", "db-old")
}

// withoutControllers: gateways go on, also one that starts anew and has only
// what it kept.
func (b *bundle) withoutControllers(name string) {
	b.t.Helper()
	b.submit(caller, "control-old", nil)
	b.until(caller, "control-old", "readiness", ready)
	b.answers("control-old")
	b.release(caller, "control-old")
	calls := b.traffic(caller, running)
	began := time.Now()
	for _, c := range b.dock.Controllers {
		b.must(c.Kill())
	}
	b.sit(began)
	calls.end(name)
	gateway := b.dock.Gateways[0]
	b.must(gateway.Kill())
	b.must(gateway.Start(b.t.Context()))
	b.answers(running)
	calls = b.traffic(caller, running)
	for _, c := range b.dock.Controllers {
		b.must(c.Start(b.t.Context()))
	}
	b.until(caller, "control-old", "release", released)
	b.converged("control", calls, name+", gateway restarted without them", "control-old")
}

// converged: new requests are served and released as ever, calls never failed,
// and every slot is accounted for.
func (b *bundle) converged(prefix string, calls *traffic, during string, others ...string) {
	b.t.Helper()
	id := prefix + "-after"
	b.submit(caller, id, nil)
	b.until(caller, id, "readiness", ready)
	b.answers(id)
	ids := append([]string{id}, others...)
	for _, id := range ids {
		if r, err := b.record(b.t.Context(), caller, id); err == nil && r.State == "reserved" {
			b.release(caller, id)
		}
	}
	for _, id := range ids {
		b.until(caller, id, "release", released)
		if !b.paidOnce(caller, id) {
			b.t.Errorf("%s was never reserved", id)
		}
	}
	calls.end(during)
	if used := b.used(caller); used != 1 {
		b.t.Errorf("%s: %s uses %d slots and has one model", during, caller, used)
	}
	b.verified()
	b.eventually("the end of what was released", func(ctx context.Context) string {
		out, err := b.cluster.Kubectl(ctx, "-n", dock.Namespace, "get", "modelservices", "-o", "name")
		if err == nil && len(strings.Fields(out)) == 1 {
			return ""
		}
		return fmt.Sprint(out, err)
	})
	for _, what := range []string{"what=lost", "what=orphan", "what=doubted", "what=released"} {
		if found := b.said("ledger and target differ", what); len(found) > 0 {
			b.t.Errorf("%s: %d times %s, the first: %s", during, len(found), what, found[0])
		}
	}
}
