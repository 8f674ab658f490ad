//go:build cluster

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/test/apiserver"
)

// names lists what the target shows, by name.
func (b *bench) names() (string, error) {
	list, err := b.target.List(b.Context())
	var out []string
	for _, st := range list {
		out = append(out, st.Ref.ID+"/"+st.Object.UID[:4])
	}
	return strings.Join(out, " "), err
}

// While nothing is heard the target fails, instead of showing what it last
// saw; what changed in the gap is there afterwards.
func TestWatchGap(t *testing.T) {
	t.Parallel()
	b, p := setupBehind(t)
	gone, stays, replaced := desired(b, "gone"), desired(b, "stays"), desired(b, "replaced")
	b.apply(gone)
	want := "replaced/%s stays/" + b.apply(stays).UID[:4]
	old := b.apply(replaced)
	p.Cut()
	b.eventually("the target notices", func() error {
		if _, err := b.target.List(t.Context()); err == nil {
			return errNotYet
		}
		return nil
	})
	for what, call := range map[string]func(context.Context) error{
		"observe": func(ctx context.Context) error { _, err := b.target.Observe(ctx, stays.Ref); return err },
		"observe what is not there": func(ctx context.Context) error {
			_, err := b.target.Observe(ctx, budget.Ref{Tenant: "team-a", ID: "none"})
			return err
		},
		"apply":  func(ctx context.Context) error { _, err := b.target.Apply(ctx, desired(b, "new")); return err },
		"delete": func(ctx context.Context) error { return b.target.Delete(ctx, stays.Ref, "") },
		"let go": func(ctx context.Context) error { return b.target.LetGo(ctx, stays.Ref, old.UID) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := call(ctx); err == nil {
			t.Errorf("%s succeeds without an API server", what)
		}
		cancel()
	}
	force(b, gone.Name)
	force(b, replaced.Name)
	made := newOne(b, replaced)
	p.Mend()
	want = fmt.Sprintf(want, made[:4])
	b.eventually("the target sees what happened", func() error {
		got, err := b.names()
		if err == nil && got != want {
			err = fmt.Errorf("it shows %q, not %q", got, want)
		}
		return err
	})
	if st := b.observe(gone.Ref); st.Exists {
		t.Fatalf("a ghost: %+v", st)
	}
}

// newOne makes the object of d as another process would.
func newOne(b *bench, d delivery.Desired) string {
	b.Helper()
	other := setupIn(b)
	obj, err := other.Apply(b.Context(), d)
	b.must(err)
	return obj.UID
}

// The API server goes and comes back as a process; with it, an uninstalled
// custom resource is not taken for objects that are gone.
func TestAPIServerRestarts(t *testing.T) {
	t.Parallel()
	own, err := apiserver.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := setup(t, own, own.REST)
	d := desired(b, "demo")
	obj := b.apply(d)
	b.must(own.Away())
	b.eventually("the target notices", func() error {
		_, listErr := b.target.List(t.Context())
		_, observeErr := b.target.Observe(t.Context(), d.Ref)
		if listErr == nil || observeErr == nil {
			return errNotYet
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := b.target.Apply(ctx, desired(b, "new")); err == nil {
		t.Fatal("applied without an API server")
	}
	b.must(own.Back())
	b.eventually("it is read again", func() error {
		st, err := b.target.Observe(t.Context(), d.Ref)
		if err == nil && st.Object != obj {
			err = fmt.Errorf("observed %+v", st)
		}
		_, listErr := b.target.List(t.Context())
		return errors.Join(err, listErr)
	})
	b.apply(desired(b, "new"))

	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("modelservices.modeldock.io")
	for _, id := range []string{"demo", "new"} {
		force(b, desired(b, id).Name)
	}
	b.must(b.api.Delete(t.Context(), crd))
	b.eventually("the custom resource is gone", func() error {
		if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err == nil {
			return errNotYet
		}
		return nil
	})
	b.eventually("the target fails", func() error {
		if st, err := b.target.Observe(t.Context(), d.Ref); err == nil {
			return fmt.Errorf("observed %+v", st)
		}
		return nil
	})
}

func TestLogsOfWhatDoesNotRunYet(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	obj := b.apply(d)
	var unknown *delivery.UnknownReplicaError
	if _, err := b.target.Logs(t.Context(), d.Ref, "", 0, false); !errors.As(err, &unknown) || len(unknown.Existing) != 0 {
		t.Fatalf("without a Pod: %v", err)
	}
	pod := b.pod(obj, "demo-abc12")
	pod.ResourceVersion, pod.UID, pod.Name, pod.Spec.NodeName = "", "", "demo-def34", ""
	b.must(b.api.Create(t.Context(), pod))
	if _, err := b.target.Logs(t.Context(), d.Ref, "7", 0, false); !errors.As(err, &unknown) || len(unknown.Existing) != 2 {
		t.Fatalf("another replica: %v", err)
	}
	out, err := b.target.Logs(t.Context(), d.Ref, "def34", 10, false)
	b.must(err)
	text, err := io.ReadAll(out)
	b.must(errors.Join(err, out.Close()))
	if !strings.Contains(string(text), "no output yet: Pod demo-def34 is Pending") {
		t.Fatalf("got %q", text)
	}
}
