//go:build cluster

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/kube"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// story is a ledger that delivers to the API server, with every loop running.
type story struct {
	*bench
	accounts *sqlledger.Ledger
	compared atomic.Int64 // rounds of the walk both ways
}

func tell(t *testing.T) *story {
	t.Helper()
	l, err := sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	instance, _, err := l.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{accounts: l, bench: setup(t, server, server.REST, func(c *kube.Config) { c.Ledger = instance })}
	_, err = l.SetPool(t.Context(), budget.DefaultPool, 1000)
	s.must(err)
	_, err = l.SetQuota(t.Context(), "team-a", 1000)
	s.must(err)
	s.loops(instance)
	return s
}

func (s *story) loops(instance string) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	doubt := &delivery.Doubt{}
	relay := delivery.NewRelay(delivery.RelayConfig{
		Outbox: s.accounts, Bindings: s.accounts, Target: s.target, Ledger: instance, Owner: "relay", Logger: quiet,
		Lease: 20 * time.Second, Poll: 50 * time.Millisecond,
	})
	settler := delivery.NewSettler(delivery.SettlerConfig{Ledger: s.accounts, Target: s.target, Instance: instance, Doubt: doubt, Logger: quiet, Poll: 50 * time.Millisecond})
	reconciler := delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: s.accounts, Target: s.target, Instance: instance, Doubt: doubt, Logger: quiet, Every: 100 * time.Millisecond, Compared: func() { s.compared.Add(1) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 3)
	for _, run := range []func(context.Context, <-chan struct{}){relay.Run, settler.Run, reconciler.Run} {
		go func() { run(ctx, nil); done <- struct{}{} }()
	}
	s.Cleanup(func() {
		cancel()
		for range cap(done) {
			<-done
		}
	})
}

// goesOn returns after some rounds of the walk both ways; the settler, which
// looks twice as often, has made more of them.
func (s *story) goesOn() {
	s.Helper()
	from := s.compared.Load()
	s.eventually("the loops go on", func() error {
		if s.compared.Load() < from+4 {
			return errNotYet
		}
		return nil
	})
}

// serve submits, admits and waits until the object is bound.
func (s *story) serve(id string, cost int64) (budget.Ref, budget.Object) {
	s.Helper()
	ref := budget.Ref{Tenant: "team-a", ID: id}
	_, err := s.accounts.Submit(s.Context(), budget.Submission{Ref: ref, Cost: cost, Pool: budget.DefaultPool, TTL: time.Hour, Model: modelspec.Default(id)})
	s.must(err)
	_, err = s.accounts.Admit(s.Context(), 0)
	s.must(err)
	var bound budget.Binding
	s.eventually("the object is bound", func() error { bound, err = s.accounts.Binding(s.Context(), ref); return err })
	return ref, bound.Object
}

func (s *story) used() int64 {
	s.Helper()
	tenant, err := s.accounts.Tenant(s.Context(), "team-a")
	s.must(err)
	return tenant.Used
}

func (s *story) released(ref budget.Ref) {
	s.Helper()
	s.eventually("the slots come back", func() error {
		r, err := s.accounts.Get(s.Context(), ref)
		if err == nil && r.State != budget.Released {
			err = fmt.Errorf("the request is %s", r.State)
		}
		return err
	})
	journal, err := s.accounts.Journal(s.Context(), ref)
	s.must(err)
	report, err := s.accounts.Verify(s.Context())
	s.must(err)
	if len(journal) != 2 || s.used() != 0 || !report.Clean() {
		s.Fatalf("journal %+v, %d slots used, violations %+v", journal, s.used(), report.Violations)
	}
}

func (s *story) explain(ref budget.Ref) evidence.Document {
	s.Helper()
	doc, err := evidence.Collector{
		Ledger: s.accounts, Store: s.accounts, Target: s.target, Clock: time.Now,
		Endpoints: func(budget.Ref) ([]traffic.Endpoint, error) { return nil, nil },
	}.Explain(s.Context(), ref)
	s.must(err)
	return doc
}

// C137, C132: deleted by hand, with and without orphans. The slots come back
// once, only after the last Pod, nothing is made again, and explain says why.
func TestDeletionByHandEndsTheReservation(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*story, string){
		"kubectl delete": func(s *story, name string) { s.must(s.api.Delete(s.Context(), s.stored(name))) },
		"with orphans": func(s *story, name string) {
			s.must(s.api.Delete(s.Context(), s.stored(name), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			ms := s.stored(name) // the garbage collector's part: it made the children orphans
			ms.Finalizers = []string{"modeldock.io/ledger"}
			s.must(client.IgnoreNotFound(s.api.Update(s.Context(), ms)))
		},
		"and its finalizer too": func(s *story, name string) { force(s.bench, name) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t)
			ref, obj := s.serve("demo", 7)
			pod := s.pod(obj, "pod-1")
			remove(s, obj.Name)
			s.eventually("the ledger knows", func() error {
				r, err := s.accounts.Get(t.Context(), ref)
				if err == nil && r.ReleaseRequestedAt.IsZero() {
					err = errNotYet
				}
				return err
			})
			s.eventually("the deletion is delivered", func() error {
				intents, err := s.accounts.Intents(t.Context(), ref)
				if err != nil || intents[len(intents)-1].DeliveredAt.IsZero() {
					return fmt.Errorf("%+v: %w", intents, errors.Join(err, errNotYet))
				}
				return nil
			})
			changes := s.changes.Load()
			pod.Labels["seen"] = "yes" // the loops go on for some rounds
			s.must(s.api.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))))
			s.eventually("the Pod's change is seen", func() error {
				if s.changes.Load() == changes {
					return errNotYet
				}
				return nil
			})
			if s.used() != 7 {
				t.Fatalf("%d slots are used while the Pod runs", s.used())
			}
			s.end(pod)
			s.released(ref)
			if s.stored(obj.Name) != nil {
				t.Fatal("it was made again")
			}
			doc := s.explain(ref)
			for _, step := range doc.Steps {
				if step.Name == "deleting" && (step.Reason != "DeletedByHand" || !strings.Contains(fmt.Sprint(step.Facts["why"]), "deleted by hand")) {
					t.Fatalf("explain says %+v", step)
				}
			}
		})
	}
}

// The ordinary release, through the same loops.
func TestReleaseGivesTheSlotsBackOnce(t *testing.T) {
	t.Parallel()
	s := tell(t)
	ref, obj := s.serve("demo", 7)
	pod := s.pod(obj, "pod-1")
	_, err := s.accounts.RequestRelease(t.Context(), ref)
	s.must(err)
	s.eventually("the deletion begins", func() error {
		if ms := s.stored(obj.Name); ms == nil || ms.DeletionTimestamp == nil {
			return errNotYet
		}
		return nil
	})
	if s.used() != 7 {
		t.Fatalf("%d slots are used while the Pod runs", s.used())
	}
	s.end(pod)
	s.released(ref)
	if s.stored(obj.Name) != nil {
		t.Fatal("the object is left")
	}
	for _, step := range s.explain(ref).Steps {
		if step.Reason == "DeletedByHand" {
			t.Fatalf("explain says %+v", step)
		}
	}
}

// An object whose annotations somebody edits is still the bound one: they come
// back, and nothing is taken for a deletion by hand.
func TestEditedIdentityComesBack(t *testing.T) {
	t.Parallel()
	s := tell(t)
	ref, obj := s.serve("demo", 7)
	s.pod(obj, "pod-1")
	for _, key := range []string{v1alpha1.AnnotationTenant, v1alpha1.AnnotationID, v1alpha1.AnnotationLedger} {
		ms := s.stored(obj.Name)
		was := ms.Annotations[key]
		if ms.Annotations[key] = "somebody"; key == v1alpha1.AnnotationLedger {
			delete(ms.Annotations, key)
		}
		s.must(s.api.Update(t.Context(), ms))
		s.eventually(key+" is as it was", func() error {
			if now := s.stored(obj.Name); now == nil || now.Annotations[key] != was {
				return fmt.Errorf("%+v: %w", now, errNotYet)
			}
			return nil
		})
	}
	r, err := s.accounts.Get(t.Context(), ref)
	s.must(err)
	if string(s.stored(obj.Name).UID) != obj.UID || r.State != budget.Reserved || !r.ReleaseRequestedAt.IsZero() {
		t.Fatalf("the reservation: %+v", r)
	}
}

// An object that says it is another ledger's is not written to; its slots are
// held by its UID, through a release until it and its Pods are gone.
func TestGivenAwayObjectHoldsItsSlots(t *testing.T) {
	t.Parallel()
	s := tell(t)
	ref, obj := s.serve("demo", 7)
	pod := s.pod(obj, "pod-1")
	ms := s.stored(obj.Name)
	ms.Annotations[v1alpha1.AnnotationLedger] = "ledger-2"
	s.must(s.api.Update(t.Context(), ms))
	s.eventually("it is seen", func() error {
		if st := s.observe(ref); st.Foreign != obj.UID || !st.Holds(obj.UID) {
			return fmt.Errorf("%+v: %w", st, errNotYet)
		}
		return nil
	})
	s.goesOn()
	r, err := s.accounts.Get(t.Context(), ref)
	s.must(err)
	if !r.ReleaseRequestedAt.IsZero() {
		t.Fatalf("it counts as deleted by hand: %+v", r)
	}
	_, err = s.accounts.RequestRelease(t.Context(), ref)
	s.must(err)
	s.eventually("the deletion begins", func() error {
		if ms := s.stored(obj.Name); ms == nil || ms.DeletionTimestamp == nil {
			return errNotYet
		}
		return nil
	})
	s.goesOn() // and does not credit
	if s.used() != 7 {
		t.Fatalf("%d slots are used while the Pod runs", s.used())
	}
	force(s.bench, obj.Name)
	s.end(pod)
	s.released(ref)
}
