package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeReadyWait is from the kubelet's start to Ready.
const nodeReadyWait = 2 * time.Minute

// Node is one real node: a mount and a PID namespace with a container runtime
// and a kubelet in it. Its processes see folders of its own at the paths that
// are compiled into them, so that several nodes fit one machine. Its methods
// are not for several goroutines at once.
type Node struct {
	Name string
	IP   netip.Addr
	Dir  string

	cluster *Cluster
	index   int

	// While it is on:
	first    *exec.Cmd      // see nodeinit
	alive    io.WriteCloser // whose end ends the first process
	launcher *launcher      // starts processes inside
}

func nodeName(i int) string { return "node-" + string(rune('a'+i)) }

// Nodes are the real nodes.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Kubelet is the node's kubelet.
func (n *Node) Kubelet() *Component { return n.component("kubelet") }

// Containerd is the node's container runtime. Pods outlive it.
func (n *Node) Containerd() *Component { return n.component("containerd") }

func (n *Node) component(name string) *Component {
	c, err := n.cluster.Component(n.Name + "/" + name)
	if err != nil {
		panic(err) // every node has both from its start on
	}
	return c
}

// DevicePluginDir is where this machine reaches what the node's kubelet knows
// as /var/lib/kubelet/device-plugins.
func (n *Node) DevicePluginDir() string { return filepath.Join(n.kubeletDir(), "device-plugins") }

// PodResourcesSocket is the kubelet's PodResources API.
func (n *Node) PodResourcesSocket() string {
	return filepath.Join(n.kubeletDir(), "pod-resources", "kubelet.sock")
}

// PluginRegistryDir and PluginDataDir are what a DRA driver is told; the node
// itself knows them below /var/lib/kubelet.
func (n *Node) PluginRegistryDir() string { return filepath.Join(n.kubeletDir(), "plugins_registry") }

// PluginDataDir is the folder of one DRA driver.
func (n *Node) PluginDataDir(driver string) string {
	return filepath.Join(n.kubeletDir(), "plugins", driver)
}

// CDIDir is where the node's container runtime looks for CDI specifications.
func (n *Node) CDIDir() string { return filepath.Join(n.Dir, "cdi") }

func (n *Node) kubeletDir() string { return filepath.Join(n.Dir, "kubelet") }

// startNodes starts all real nodes and waits until they are Ready.
func (c *Cluster) startNodes(ctx context.Context) error {
	if c.options.Nodes == 0 {
		return nil
	}
	initProgram, err := c.buildNodeInit(ctx)
	if err != nil {
		return err
	}
	pause, err := c.buildImage(ctx, Image{Name: PauseImage, Files: map[string]string{"/pause": initProgram}, Entrypoint: []string{"/pause"}})
	if err != nil {
		return err
	}
	for i := range c.options.Nodes {
		n := &Node{Name: nodeName(i), IP: nodeAddress(block(c.record.Block), i), cluster: c, index: i}
		n.Dir = filepath.Join(c.Dir, "nodes", n.Name)
		c.nodes = append(c.nodes, n)
		c.options.Log.Info("starting a node", "node", n.Name, "address", n.IP)
		if err := n.configure(); err != nil {
			return err
		}
		if err := n.startRuntime(ctx); err != nil {
			return err
		}
		if err := n.load(ctx, pause); err != nil {
			return err
		}
		if err := n.Kubelet().Start(ctx); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := n.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// configure makes the node's folders, control group, identity and files.
func (n *Node) configure() error {
	for _, dir := range append(n.private(), n.CDIDir(), n.at("containerd"), n.at("cni"), n.at("pod-logs"), n.at("leases"), n.at("opt")) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the folders of %s: %w", n.Name, err)
		}
	}
	if err := makeCgroup(n.cgroup()); err != nil {
		return err
	}
	c := n.cluster
	user := "system:node:" + n.Name
	if _, err := c.AddUser(user, nodeGroup); err != nil {
		return err
	}
	serving, err := c.certs.ca.issue(c.certs.dir, "serving-"+n.Name, identity{name: user, groups: []string{nodeGroup}, hosts: []string{n.IP.String(), n.Name}})
	if err != nil {
		return err
	}
	first, last := podRange(block(c.record.Block), n.index)
	if err := writeFiles(map[string]string{
		n.at("kubelet.yaml"):              kubeletConfig(n, serving, c.certs.ca.File),
		n.at("containerd.toml"):           containerdConfig(n, c.distribution),
		n.at("cni", "10-bridge.conflist"): cniConfig(c.record.Bridge, block(c.record.Block), first, last, n.at("leases")),
	}); err != nil {
		return err
	}
	path := filepath.Dir(c.programs["containerd-shim-runc-v2"]) + ":" + filepath.Dir(c.distribution.runc) + ":" + os.Getenv("PATH")
	env := append(os.Environ(), "PATH="+path) // an older shim on PATH would be taken otherwise
	c.add(n.Name+"/containerd", nil, []string{c.programs["containerd"], "--config", n.at("containerd.toml")}, env, n.runtimeAnswers)
	kubelet := []string{c.programs["kubelet"], "--config=" + n.at("kubelet.yaml"), "--kubeconfig=" + c.userFile(user), "--hostname-override=" + n.Name,
		"--node-ip=" + n.IP.String(), "--cert-dir=" + n.at("kubelet", "pki")}
	c.add(n.Name+"/kubelet", nil, append(kubelet, c.options.ExtraArgs["kubelet"]...), env,
		c.answers("http://"+netip.AddrPortFrom(n.IP, kubeletHealthPort).String()+"/healthz", nil))
	return nil
}

func (n *Node) at(elements ...string) string {
	return filepath.Join(append([]string{n.Dir}, elements...)...)
}

// private are the node's folders at the shared paths, in their order.
func (n *Node) private() []string {
	return []string{n.kubeletDir(), n.at("container-logs"), n.at("run")}
}

func (n *Node) cgroup() string { return n.cluster.record.Cgroups[n.index] }

// waitReady waits until the API server calls the node Ready.
func (n *Node) waitReady(ctx context.Context) error {
	client, err := n.cluster.Client()
	if err != nil {
		return err
	}
	err = waitFor(ctx, nodeReadyWait, func(ctx context.Context) error {
		if n.Kubelet().PID() == 0 {
			return permanent(errors.New("its kubelet has ended"))
		}
		node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nodeReady(node)
	})
	if err != nil {
		return fmt.Errorf("%s does not become Ready: %w; the end of its kubelet's log:\n%s", n.Name, err, n.Kubelet().LogTail())
	}
	return nil
}

func nodeReady(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return errors.New("it has not reported yet")
}
