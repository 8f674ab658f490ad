package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
)

// PauseImage is what holds a Pod's namespaces; every node has it.
const PauseImage = "modeldock.test/pause:1"

const (
	kubeletPort       = 10250 // every node has an address of its own
	kubeletHealthPort = 10248
	runtimeSocket     = "/run/containerd/containerd.sock" // as the node sees it
)

// distribution are the programs that are not built here.
type distribution struct{ runc, cniDir string }

func (c *Cluster) findDistribution() error {
	var missing error
	runc, err := exec.LookPath("runc")
	if err != nil {
		missing = errors.Join(missing, errors.New("runc is not on PATH; install the package runc (crun 1.8 is no replacement: it does not know what containerd 2.4 asks for)"))
	}
	var cni string
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		_, err1 := os.Stat(filepath.Join(dir, "bridge"))
		_, err2 := os.Stat(filepath.Join(dir, "host-local"))
		if err1 == nil && err2 == nil {
			cni = dir
			break
		}
	}
	if cni == "" {
		missing = errors.Join(missing, errors.New("the CNI plugins bridge and host-local are neither in /usr/lib/cni nor in /opt/cni/bin; install the package containernetworking-plugins"))
	}
	if _, err := exec.LookPath("ip"); err != nil {
		missing = errors.Join(missing, errors.New("ip is not on PATH; install the package iproute2"))
	}
	c.distribution = distribution{runc, cni}
	return missing
}

// kubeletConfig is the kubelet's configuration file.
func kubeletConfig(n *Node, serving keyPair, ca string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
port: %[2]d
healthzBindAddress: %[1]s
healthzPort: %[3]d
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[4]q}}
authorization: {mode: Webhook}
tlsCertFile: %[5]q
tlsPrivateKeyFile: %[6]q
containerRuntimeEndpoint: unix://%[7]s
cgroupDriver: cgroupfs
cgroupRoot: /%[8]s
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
podLogsDir: %[9]s
resolvConf: ""
serializeImagePulls: false
# Changes show within a second; without a change the node is written every 5 min.
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 5m
# Images are imported and could not be pulled again.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 50Mi, nodefs.available: 200Mi, nodefs.inodesFree: "1%%", imagefs.available: 200Mi}
`, n.IP, kubeletPort, kubeletHealthPort, ca, serving.Cert, serving.Key, runtimeSocket, n.cgroup(), n.at("pod-logs"))
}

// containerdConfig is the container runtime's configuration file. What it does
// not name stays below /run/containerd, which is the node's own.
func containerdConfig(n *Node, d distribution) string {
	return fmt.Sprintf(`version = 3
root = %[1]q
state = "/run/containerd"

[grpc]
  address = %[2]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[3]q

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = %[4]q
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %[5]q

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = %[6]t
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = [%[7]q]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %[8]q
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%[9]q]
    conf_dir = %[10]q
    use_internal_loopback = true

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
`, n.at("containerd"), runtimeSocket, n.at("opt"), snapshotter(n.Dir), PauseImage, !mayRaiseOOMScore(), n.CDIDir(), d.runc, d.cniDir, n.at("cni"))
}

// cniConfig puts Pods on the cluster's bridge. They get no default route: the
// bridge is all there is to reach.
func cniConfig(bridge string, b netip.Prefix, first, last netip.Addr, leases string) string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "modeldock", "plugins": [{
  "type": "bridge", "bridge": %q, "isGateway": false, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q, "rangeStart": %q, "rangeEnd": %q}]]}
}]}
`, bridge, leases, b, first, last)
}

// runtimeAnswers is the readiness check of the container runtime.
func (n *Node) runtimeAnswers(ctx context.Context) error {
	_, err := n.ctr(ctx, "version")
	return err
}
