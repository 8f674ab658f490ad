package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// operatorLease names the Lease that the operators of all controllers share.
const operatorLease = "modeldock-operator"

// leaseTimes are those that Kubernetes' own controllers have.
type leaseTimes struct{ lasts, renew, retry time.Duration }

var errLeaseLost = errors.New("its Lease is lost")

func operatorTimes() leaseTimes {
	return leaseTimes{lasts: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
}

// holding stands for the Lease and works while this process holds it, at most
// once. What works is built by then only: whoever waits watches nothing. The
// Lease is given back after the work has ended, so that nobody else begins
// before.
func holding(ctx context.Context, lock resourcelock.Interface, times leaseTimes, work func(context.Context) error) error {
	acquired := make(chan context.Context, 1) // ends with the Lease
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: operatorLease, ReleaseOnCancel: true,
		LeaseDuration: times.lasts, RenewDeadline: times.renew, RetryPeriod: times.retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { acquired <- held },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("stand for the operator's Lease: %w", err)
	}
	standing, leave := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan struct{})
	go func() { defer close(left); elector.Run(standing) }()
	defer func() { leave(); <-left }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case held := <-acquired:
		working, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(held, stop)()
		if err := work(working); err != nil || held.Err() == nil {
			return err
		}
		return errLeaseLost
	}
}

// leaseFor is the Lease under a name of this process. It makes no events: the
// Lease itself tells who holds it. A call that is not answered must not use up
// the time that a holder has.
func leaseFor(cfg *rest.Config, namespace, identity string) (resourcelock.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = operatorTimes().renew / 2
	client, err := coordination.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the client for the operator's Lease: %w", err)
	}
	return lockOn(client, namespace, identity), nil
}

func lockOn(client coordination.LeasesGetter, namespace, identity string) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: operatorLease}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// holder names this process in the Lease. Who starts again after a kill has
// the same name and takes its own Lease up at once, instead of waiting until
// it has run out; that the dead one is dead is proven by its address, which
// this process listens on. The kernel's boot tells machines apart that are
// called alike.
func holder(listen net.Addr) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = fmt.Append(nil, os.Getpid()) // a name of its own: the Lease has to run out
	}
	return strings.Join([]string{hostname(), listen.String(), strings.TrimSpace(string(boot))}, "_")
}
