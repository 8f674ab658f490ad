package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
)

// Names of the control plane's components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// endpoints are the addresses of the control plane.
type endpoints struct {
	apiHost                                                 string // loopback, or the bridge where there are real nodes
	api, etcd, etcdPeer, controllerManager, scheduler, kwok int
}

func newEndpoints(apiHost string) (endpoints, error) {
	ports, err := freePorts(6)
	if err != nil {
		return endpoints{}, err
	}
	return endpoints{apiHost, ports[0], ports[1], ports[2], ports[3], ports[4], ports[5]}, nil
}

func (e endpoints) url() string {
	return "https://" + net.JoinHostPort(e.apiHost, strconv.Itoa(e.api))
}

func loopback(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

func etcdArgs(dir string, e endpoints, c certificates) []string {
	return []string{
		"--name=store", "--data-dir=" + filepath.Join(dir, "etcd"), "--log-level=warn",
		"--listen-client-urls=" + loopback(e.etcd), "--advertise-client-urls=" + loopback(e.etcd),
		"--listen-peer-urls=" + loopback(e.etcdPeer), "--initial-advertise-peer-urls=" + loopback(e.etcdPeer),
		"--initial-cluster=store=" + loopback(e.etcdPeer),
		"--cert-file=" + c.etcd.Cert, "--key-file=" + c.etcd.Key, "--trusted-ca-file=" + c.etcdCA.File, "--client-cert-auth",
		"--peer-cert-file=" + c.etcd.Cert, "--peer-key-file=" + c.etcd.Key, "--peer-trusted-ca-file=" + c.etcdCA.File, "--peer-client-cert-auth",
		// A crash of the machine may lose it; a crash of a process does not.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
	}
}

func apiServerArgs(dir string, e endpoints, c certificates, audit bool) []string {
	args := []string{
		"--etcd-servers=" + loopback(e.etcd), "--etcd-cafile=" + c.etcdCA.File, "--etcd-certfile=" + c.etcd.Cert, "--etcd-keyfile=" + c.etcd.Key,
		"--bind-address=" + e.apiHost, "--advertise-address=" + e.apiHost, "--secure-port=" + strconv.Itoa(e.api),
		"--endpoint-reconciler-type=none", // it would refuse a loopback address
		"--tls-cert-file=" + c.apiServer.Cert, "--tls-private-key-file=" + c.apiServer.Key, "--client-ca-file=" + c.ca.File,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.tokens.Cert, "--service-account-signing-key-file=" + c.tokens.Key,
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		// Aggregated APIs: the cluster proves itself by an authority of its own.
		"--requestheader-client-ca-file=" + c.frontCA.File, "--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.front.Cert, "--proxy-client-key-file=" + c.front.Key,
		"--kubelet-client-certificate=" + c.kubeletClient.Cert, "--kubelet-client-key=" + c.kubeletClient.Key, "--kubelet-certificate-authority=" + c.ca.File,
		"--kubelet-preferred-address-types=InternalIP", // names of nodes stand in no DNS
		"--shutdown-send-retry-after=false",
	}
	if audit {
		args = append(args, "--audit-policy-file="+filepath.Join(dir, auditPolicyFile), "--audit-log-path="+auditLog(dir), "--audit-log-maxsize=0")
	}
	return args
}

func controllerManagerArgs(e endpoints, c certificates, kubeconfig string, qps int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(e.controllerManager), "--leader-elect=false",
		"--use-service-account-credentials=true", "--service-account-private-key-file=" + c.tokens.Key, "--root-ca-file=" + c.ca.File,
		"--kube-api-qps=" + strconv.Itoa(qps), "--kube-api-burst=" + strconv.Itoa(2*qps),
	}
}

// fastAutoscaling lets a HorizontalPodAutoscaler act within seconds.
func fastAutoscaling() []string {
	return []string{
		"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=3s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=1s", "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
	}
}

// schedulerConfig is the scheduler's configuration file.
func schedulerConfig(kubeconfig string, qps int) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %d, burst: %d}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`, kubeconfig, qps, 2*qps)
}

func schedulerArgs(e endpoints, config, kubeconfig string) []string {
	return []string{
		"--config=" + config, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(e.scheduler),
	}
}

// startControlPlane starts the components in the order in which they need each
// other: controllers and scheduler give up at once where no API server answers.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	dir, e, certs, o := c.Dir, c.at, c.certs, c.options
	controllers := controllerManagerArgs(e, certs, c.userFile(controllerManagerUser), o.ClientQPS)
	if o.FastAutoscaling {
		controllers = append(controllers, fastAutoscaling()...)
	}
	config := filepath.Join(dir, "scheduler.yaml")
	if err := writeFiles(map[string]string{
		config:                              schedulerConfig(c.userFile(schedulerUser), o.ClientQPS),
		filepath.Join(dir, auditPolicyFile): auditPolicy,
	}); err != nil {
		return err
	}
	for _, step := range []struct {
		name  string
		args  []string
		ready func(context.Context) error
	}{
		{Etcd, etcdArgs(dir, e, certs), c.answers(loopback(e.etcd)+"/readyz", certs.etcdClient)},
		{APIServer, apiServerArgs(dir, e, certs, o.AuditLog), c.answers(e.url()+"/readyz", certs.apiClient)},
		{ControllerManager, controllers, c.answers(loopback(e.controllerManager)+"/healthz", nil)},
		{Scheduler, schedulerArgs(e, config, c.userFile(schedulerUser)), c.answers(loopback(e.scheduler)+"/healthz", nil)},
	} {
		command := slices.Concat([]string{c.programs[step.name]}, step.args, o.ExtraArgs[step.name])
		if err := c.add(step.name, c.host, command, nil, step.ready).Start(ctx); err != nil {
			return err
		}
	}
	return nil
}
