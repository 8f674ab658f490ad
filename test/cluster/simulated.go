package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// SimulatedTaint keeps Pods that must really run off simulated nodes.
	SimulatedTaint = "kwok.x-k8s.io/node"
	// SimulatedLabel is on every simulated node.
	SimulatedLabel = "type=kwok"

	simulatedRange  = "10.245.0.0/16" // addresses that nothing answers at
	parallelCreates = 16
	simulatedWait   = 5 * time.Minute
)

//go:embed stages.yaml
var stages string

// NodeTemplate describes simulated nodes. They have 32 CPUs, 256 GiB and room
// for 110 Pods unless it says otherwise.
type NodeTemplate struct {
	Prefix      string // of their names; default "sim-"
	Labels      map[string]string
	Annotations map[string]string
	Resources   map[corev1.ResourceName]string // capacity and allocatable, extended resources among them
	NoTaint     bool                           // Pods need no toleration of SimulatedTaint
}

// AddSimulatedNodes adds nodes PREFIX0 … PREFIX(n-1), of which those that exist
// stay as they are, and waits until all are Ready. Their Pods are Ready at once
// and have addresses at which nobody answers. Many such nodes are a constant
// load on the API server: remove them when they are no longer needed.
func (c *Cluster) AddSimulatedNodes(ctx context.Context, n int, t NodeTemplate) error {
	if t.Prefix == "" {
		t.Prefix = "sim-"
	}
	capacity, err := t.capacity()
	if err != nil {
		return err
	}
	if err := c.startKwok(ctx); err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	c.options.Log.Info("adding simulated nodes", "count", n)
	err = inParallel(n, func(i int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, t.node(t.Prefix+strconv.Itoa(i), capacity), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add simulated nodes: %w", err)
	}
	return c.waitSimulated(ctx, client, n, t.Prefix)
}

// RemoveSimulatedNodes removes nodes that AddSimulatedNodes made.
func (c *Cluster) RemoveSimulatedNodes(ctx context.Context, n int, prefix string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	err = inParallel(n, func(i int) error {
		err := client.CoreV1().Nodes().Delete(ctx, prefix+strconv.Itoa(i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove simulated nodes: %w", err)
	}
	return nil
}

func (t NodeTemplate) capacity() (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	texts := map[corev1.ResourceName]string{corev1.ResourceCPU: "32", corev1.ResourceMemory: "256Gi", corev1.ResourcePods: "110"}
	maps.Copy(texts, t.Resources)
	for name, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("read the quantity %q of %s for simulated nodes: %w", text, name, err)
		}
		list[name] = quantity
	}
	return list, nil
}

func (t NodeTemplate) node(name string, capacity corev1.ResourceList) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"type": "kwok", corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	maps.Copy(node.Labels, t.Labels)
	maps.Copy(node.Annotations, t.Annotations)
	if !t.NoTaint {
		node.Spec.Taints = []corev1.Taint{{Key: SimulatedTaint, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

func (c *Cluster) waitSimulated(ctx context.Context, client kubernetes.Interface, n int, prefix string) error {
	wanted := make(map[string]bool, n)
	for i := range n {
		wanted[prefix+strconv.Itoa(i)] = true
	}
	err := waitFor(ctx, simulatedWait, func(ctx context.Context) error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: SimulatedLabel, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if wanted[list.Items[i].Name] && nodeReady(&list.Items[i]) == nil {
				ready++
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d are Ready", ready, n)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for simulated nodes: %w; the end of kwok's log:\n%s", err, tail(filepath.Join(c.Dir, "logs", Kwok+".log")))
	}
	return nil
}

// startKwok starts what simulates kubelets, unless it runs already.
func (c *Cluster) startKwok(ctx context.Context) error {
	c.mu.Lock()
	kwok := c.components[Kwok]
	c.mu.Unlock()
	if kwok == nil {
		file := filepath.Join(c.Dir, "stages.yaml")
		if err := writeFiles(map[string]string{file: stages}); err != nil {
			return err
		}
		address := "127.0.0.1:" + strconv.Itoa(c.at.kwok)
		args := append([]string{
			c.programs[Kwok], "--config", file, "--kubeconfig", c.Kubeconfig(), "--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40",
			"--cidr=" + simulatedRange, "--server-address=" + address,
		}, c.options.ExtraArgs[Kwok]...)
		kwok = c.add(Kwok, c.host, args, nil, c.answers("http://"+address+"/healthz", nil))
	}
	if kwok.PID() != 0 {
		return nil
	}
	return kwok.Start(ctx)
}

// inParallel calls f for 0 … n-1, a few at a time.
func inParallel(n int, f func(int) error) error {
	errs := make([]error, n)
	turns := make(chan struct{}, parallelCreates)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			errs[i] = f(i)
			<-turns
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
