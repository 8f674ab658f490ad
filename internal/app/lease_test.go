package app

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const leasePatience = 45 * time.Second

func quickTimes() leaseTimes {
	return leaseTimes{lasts: 3 * time.Second, renew: 2 * time.Second, retry: 100 * time.Millisecond}
}

// stand stands for the Lease under a name. began gets the context of its work,
// which ends with that context or when it is told to; what holding returned
// comes last.
func stand(ctx context.Context, c *fake.Clientset, name string, end <-chan struct{}) (began <-chan context.Context, over <-chan error) {
	working, done := make(chan context.Context, 1), make(chan error, 1)
	go func() {
		done <- holding(ctx, lockOn(c.CoordinationV1(), "system", name), quickTimes(), func(ctx context.Context) error {
			working <- ctx
			<-ctx.Done()
			<-end
			return nil
		})
	}()
	return working, done
}

func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(leasePatience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// Who does not hold the Lease does not even begin, and the Lease is handed on
// only when the work of its holder has ended.
func TestOneHoldsTheLease(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	first, stop := context.WithCancel(t.Context())
	end, none := make(chan struct{}), make(chan struct{})
	close(none)
	began, over := stand(first, c, "first", end)
	within(t, "the first to begin", began)
	second, stopSecond := context.WithCancel(t.Context())
	began2, over2 := stand(second, c, "second", none)
	stop() // its work goes on for a while
	select {
	case <-began2:
		t.Error("the second began while the first still worked")
	case err := <-over:
		t.Errorf("the first was over before its work: %v", err)
	case <-time.After(2 * quickTimes().lasts): // the Lease is renewed, or it would have run out
	}
	close(end)
	if err := within(t, "the end of the first", over); err != nil {
		t.Errorf("the first ended with %v", err)
	}
	within(t, "the second to begin", began2)
	stopSecond()
	if err := within(t, "the end of the second", over2); err != nil {
		t.Errorf("the second ended with %v", err)
	}
	third, stopThird := context.WithCancel(t.Context())
	stopThird()
	if _, over3 := stand(third, c, "third", none); !errors.Is(within(t, "the end of who never began", over3), context.Canceled) {
		t.Error("who was told to end stood for the Lease")
	}
}

// A Lease that cannot be renewed ends the work, and the process can stand again.
func TestALostLeaseEndsTheWork(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	var away atomic.Bool
	c.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, apierrors.NewServiceUnavailable("away")
	})
	none := make(chan struct{})
	close(none)
	began, over := stand(t.Context(), c, "one", none)
	working := within(t, "the work to begin", began)
	away.Store(true)
	within(t, "the end of the work", working.Done())
	if err := within(t, "the end", over); !errors.Is(err, errLeaseLost) {
		t.Errorf("ended with %v", err)
	}
	away.Store(false)
	began, _ = stand(t.Context(), c, "one", none)
	within(t, "the work to begin again", began)
}
