package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeReadyWait is from the kubelet's start to Ready.
const nodeReadyWait = 2 * time.Minute

// Node is one real node: a mount and a PID namespace with a container runtime
// and a kubelet in it. Its processes see folders of its own at the paths that
// are compiled into them, so any number of nodes fit one machine.
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
	pause, err := c.buildImage(ctx, Image{Name: pauseImage, Files: map[string]string{"/pause": initProgram}, Entrypoint: []string{"/pause"}})
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

// PowerOn brings the node back after PowerOff, as after a reset: with its
// images, and with Pods that start anew. It returns when the kubelet serves,
// which is before the node is Ready.
func (n *Node) PowerOn(ctx context.Context) error {
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	return n.Kubelet().Start(ctx)
}

// startRuntime starts the node's first process and its container runtime.
func (n *Node) startRuntime(ctx context.Context) error {
	if n.first != nil {
		return fmt.Errorf("switch on %s: it is on", n.Name)
	}
	// Sockets and mounts of the last run mean nothing any more.
	if err := clearDir(n.at("run")); err != nil {
		return err
	}
	if err := n.boot(); err != nil {
		return fmt.Errorf("switch on %s: %w", n.Name, err)
	}
	return n.Containerd().Start(ctx)
}

func clearDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear a folder: %w", err)
	}
	return os.MkdirAll(dir, 0o700)
}

// boot makes the namespaces.
func (n *Node) boot() error {
	args := make([]string, 0, len(sharedPaths()))
	for i, path := range sharedPaths() {
		args = append(args, n.private()[i]+":"+path)
	}
	cmd := exec.Command(n.cluster.nodeInit(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make its lifeline: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("listen to its first process: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(n.cluster.Dir, "logs", n.Name+"-init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start its first process: %w", err)
	}
	n.first, n.alive = cmd, stdin
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		defer n.PowerOff()
		return fmt.Errorf("its first process ended: %w; %s", err, tail(log.Name(), tailBytes))
	}
	if n.launcher, err = newLauncher(false, func() error { return enterNode(cmd.Process.Pid) }); err != nil {
		defer n.PowerOff()
		return err
	}
	n.Containerd().launcher, n.Kubelet().launcher = n.launcher, n.launcher
	return nil
}

// PowerOff ends everything on the node at once, as pulling its plug would.
func (n *Node) PowerOff() {
	if n.first == nil {
		return
	}
	_ = n.alive.Close()
	_ = n.first.Process.Kill() // the kernel kills all others with it
	_ = n.first.Wait()         // how it ended is known
	for _, c := range []*Component{n.Kubelet(), n.Containerd()} {
		if c.PID() != 0 {
			_ = c.Kill() // it ends by itself; this waits for it
		}
	}
	if n.launcher != nil {
		n.launcher.close()
	}
	n.first, n.launcher = nil, nil
}

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
