package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

// patience bounds every wait on a condition: machines are shared.
const patience = 3 * time.Minute

// long says that the long forms are to run.
func long() bool { return os.Getenv("MODELDOCK_FAULTS") == "long" }

// formOf chooses between the short and the long form.
func formOf[T any](short, full T) T {
	if long() {
		return full
	}
	return short
}

// bundle is a cluster with ModelDock on it.
type bundle struct {
	t       *testing.T
	cluster *cluster.Cluster
	dock    *dock.Dock
	admin   management.Client // of the first controller
}

func setup(t *testing.T, co cluster.Options, do dock.Options) *bundle {
	t.Helper()
	binary, err := dock.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, co)
	do.Cluster, do.Binary, do.Dir = c, binary, t.TempDir()
	d, err := dock.Start(t.Context(), do)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range append(append([]*dock.Process{}, d.Controllers...), d.Gateways...) {
				t.Logf("--- %s\n%s", p.Name, p.LogTail())
			}
		}
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &bundle{t: t, cluster: c, dock: d, admin: management.Client{URL: d.Controllers[0].URL, Key: d.Keys["admin"]}}
}

// as calls the API of a controller with a tenant's key.
func (b *bundle) as(tenant string, controller int) management.Client {
	return management.Client{URL: b.dock.Controllers[controller].URL, Key: b.dock.Keys[tenant]}
}

// eventually waits until ok returns "", and fails with what it said last.
func (b *bundle) eventually(what string, ok func(ctx context.Context) string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		last := ok(b.t.Context())
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waited %s for %s; last: %s", patience, what, last)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// record reads one request.
func (b *bundle) record(ctx context.Context, tenant, id string) (management.Record, error) {
	var r management.Record
	return r, b.as(tenant, 0).Call(ctx, http.MethodGet, "/requests/"+id, nil, &r)
}

// until waits for a state of one request.
func (b *bundle) until(tenant, id, what string, ok func(management.Record) bool) {
	b.t.Helper()
	b.eventually(what+" of "+id, func(ctx context.Context) string {
		r, err := b.record(ctx, tenant, id)
		if err == nil && ok(r) {
			return ""
		}
		return fmt.Sprintf("%+v, %v", r, err)
	})
}

func ready(r management.Record) bool    { return r.State == "reserved" && r.ReadyReplicas > 0 }
func released(r management.Record) bool { return r.State == "released" }

// submit asks for a model and does not accept a refusal.
func (b *bundle) submit(tenant, id string, model map[string]any) {
	b.t.Helper()
	body := map[string]any{"id": id, "cost": 1, "priority": 50}
	if model != nil {
		body["model"] = model
	}
	if err := b.as(tenant, 0).Call(b.t.Context(), http.MethodPost, "/requests", body, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) release(tenant, id string) {
	b.t.Helper()
	if err := b.as(tenant, 0).Call(b.t.Context(), http.MethodPost, "/requests/"+id+"/release", nil, nil); err != nil {
		b.t.Fatal(err)
	}
}

// verified fails unless no invariant of the ledger is broken.
func (b *bundle) verified() {
	b.t.Helper()
	var report struct {
		Clean      bool
		Violations []any
	}
	if err := b.admin.Call(b.t.Context(), http.MethodGet, "/ledger/verify", nil, &report); err != nil || !report.Clean {
		b.t.Errorf("the ledger is not clean: %+v, %v", report, err)
	}
}

// used is how many slots a tenant holds.
func (b *bundle) used(tenant string) int64 {
	b.t.Helper()
	var quota struct{ Used int64 }
	if err := b.admin.Call(b.t.Context(), http.MethodGet, "/tenants/"+tenant, nil, &quota); err != nil {
		b.t.Fatal(err)
	}
	return quota.Used
}

// paidOnce fails unless the journal of a released request has one debit, and
// credits that are its sum.
func (b *bundle) paidOnce(tenant, id string) (wasReserved bool) {
	b.t.Helper()
	var journal struct {
		Items []struct {
			Op    string
			Slots int64
		}
	}
	if err := b.as(tenant, 0).Call(b.t.Context(), http.MethodGet, "/requests/"+id+"/journal", nil, &journal); err != nil {
		b.t.Error(err)
		return false
	}
	ops, sum := map[string]int{}, int64(0)
	for _, e := range journal.Items {
		ops[e.Op]++
		sum += e.Slots
	}
	if sum != 0 || ops["reserve"] > 1 || ops["release"] != ops["reserve"] {
		b.t.Errorf("%s/%s was not paid and given back once: %+v", tenant, id, journal.Items)
	}
	return ops["reserve"] > 0
}

// nothingLeft waits until no object, and nothing that it had made, is there.
func (b *bundle) nothingLeft() {
	b.t.Helper()
	b.eventually("the end of all objects", func(ctx context.Context) string {
		out, err := b.cluster.Kubectl(ctx, "-n", dock.Namespace, "get", "modelservices,deployments,replicasets,pods,services", "-o", "name")
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(out)
	})
}

// said are the lines of the controllers' logs that contain all the words.
func (b *bundle) said(words ...string) []string {
	b.t.Helper()
	var found []string
	for _, p := range b.dock.Controllers {
		text, err := p.Log()
		if err != nil {
			b.t.Fatal(err)
		}
	lines:
		for line := range strings.Lines(text) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			found = append(found, p.Name+": "+line)
		}
	}
	return found
}
