package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Forwarder stands in for kube-proxy, which the test cluster does not have: it
// takes connections at one address that Pods and this machine reach, and brings
// each to whatever is behind it at that moment.
type Forwarder struct {
	Address string

	listener net.Listener
	behind   func(context.Context) (string, error)
	ctx      context.Context //nolint:containedctx // it ends with Stop, like the listener
	stop     context.CancelFunc
	all      sync.WaitGroup
}

// Forward listens at a free port of host.
func Forward(host string, behind func(context.Context) (string, error)) (*Forwarder, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for a Service: %w", err)
	}
	f := &Forwarder{Address: l.Addr().String(), listener: l, behind: behind}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.all.Go(f.accept)
	return f, nil
}

// To is one fixed address.
func To(address string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return address, nil }
}

// Stop cuts what is still connected.
func (f *Forwarder) Stop() {
	f.stop()
	_ = f.listener.Close()
	f.all.Wait()
}

func (f *Forwarder) accept() {
	for {
		front, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.all.Go(func() { f.join(front) })
	}
}

func (f *Forwarder) join(front net.Conn) {
	defer func() { _ = front.Close() }()
	address, err := f.behind(f.ctx)
	if err != nil {
		return // as a Service without endpoints: nobody answers
	}
	back, err := new(net.Dialer).DialContext(f.ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = back.Close() }()
	cut := context.AfterFunc(f.ctx, func() { _ = errors.Join(front.Close(), back.Close()) })
	defer cut()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{front, back}, {back, front}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if tcp, ok := way[1].(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
		})
	}
	both.Wait()
}

// Service picks a ready endpoint of a Service's named port, in turn.
func Service(client kubernetes.Interface, namespace, name, port string) func(context.Context) (string, error) {
	var mu sync.Mutex
	turn := 0
	return func(ctx context.Context) (string, error) {
		slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		if err != nil {
			return "", fmt.Errorf("read the endpoints of %s/%s: %w", namespace, name, err)
		}
		var ready []string
		for _, s := range slices.Items {
			for _, p := range s.Ports {
				if p.Name == nil || *p.Name != port || p.Port == nil {
					continue
				}
				for _, e := range s.Endpoints {
					if e.Conditions.Ready != nil && *e.Conditions.Ready {
						ready = append(ready, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
					}
				}
			}
		}
		if len(ready) == 0 {
			return "", fmt.Errorf("service %s/%s has no ready endpoint", namespace, name)
		}
		mu.Lock()
		defer mu.Unlock()
		turn++
		return ready[turn%len(ready)], nil
	}
}
