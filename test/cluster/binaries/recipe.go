// Package binaries finds the programs that a Kubernetes on one machine consists
// of, and builds those that are missing from Go modules, once per version, into
// a cache. It needs the standard library and the go command only.
package binaries

import (
	"fmt"
	"strings"
)

// The versions that this cluster is made of. The go.mod in each recipe's folder
// says the same; a test compares them.
const (
	KubernetesVersion = "v1.37.2"
	EtcdVersion       = "v3.7.3"
	ContainerdVersion = "v2.4.2"
	KwokVersion       = "v0.8.0"
	HelmVersion       = "v4.3.2"   // for tests of the chart
	PrometheusVersion = "v0.316.0" // 3.16.0, for tests of alert rules and of KEDA
	KEDAVersion       = "v2.21.0"  // for tests of models that it scales
)

// Program is one executable.
type Program struct {
	Name        string   // as it is started
	Package     string   // the Go package that it is built from
	VersionArgs []string // what makes it print its version
}

// Recipe is a module of its own whose go.mod and go.sum pin everything that its
// programs are built from.
type Recipe struct {
	Name       string // its folder, and its name in the cache
	Module     string // the module that Version is of
	Version    string
	LDFlags    string
	OnlyByName bool // it is not built unless it is named
	Programs   []Program
}

// Recipes lists everything that can be built. kube-proxy is not there: Pods are
// reached at their own addresses and through headless Services, which need none.
func Recipes() []Recipe {
	return []Recipe{
		{
			Name: "kubernetes", Module: "k8s.io/kubernetes", Version: KubernetesVersion, LDFlags: kubernetesFlags(),
			Programs: []Program{
				kubernetes("kube-apiserver", "--version"),
				kubernetes("kube-controller-manager", "--version"),
				kubernetes("kube-scheduler", "--version"),
				kubernetes("kubelet", "--version"),
				kubernetes("kubectl", "version", "--client"),
			},
		},
		{
			Name: "etcd", Module: "go.etcd.io/etcd/server/v3", Version: EtcdVersion, LDFlags: "-s -w",
			Programs: []Program{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3", VersionArgs: []string{"--version"}}},
		},
		{
			Name: "containerd", Module: "github.com/containerd/containerd/v2", Version: ContainerdVersion,
			LDFlags:  "-s -w -X github.com/containerd/containerd/v2/version.Version=" + ContainerdVersion,
			Programs: []Program{containerd("containerd", "--version"), containerd("containerd-shim-runc-v2", "-v"), containerd("ctr", "--version")},
		},
		{
			Name: "kwok", Module: "sigs.k8s.io/kwok", Version: KwokVersion, LDFlags: "-s -w",
			Programs: []Program{{Name: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok", VersionArgs: []string{"--version"}}},
		},
		{
			Name: "helm", Module: "helm.sh/helm/v4", Version: HelmVersion, LDFlags: "-s -w -X helm.sh/helm/v4/internal/version.version=" + HelmVersion,
			Programs: []Program{{Name: "helm", Package: "helm.sh/helm/v4/cmd/helm", VersionArgs: []string{"version", "--short"}}},
		},
		{
			Name: "prometheus", Module: "github.com/prometheus/prometheus", Version: PrometheusVersion, LDFlags: "-s -w -X github.com/prometheus/common/version.Version=" + PrometheusVersion,
			Programs: []Program{prometheus("promtool"), prometheus("prometheus")},
		},
		{
			Name: "keda", Module: "github.com/kedacore/keda/v2", Version: KEDAVersion, OnlyByName: true,
			LDFlags:  "-s -w -X github.com/kedacore/keda/v2/version.Version=" + strings.TrimPrefix(KEDAVersion, "v"),
			Programs: []Program{keda("operator"), keda("adapter")},
		},
	}
}

func kubernetes(name string, version ...string) Program {
	return Program{Name: name, Package: "k8s.io/kubernetes/cmd/" + name, VersionArgs: version}
}

func containerd(name string, version ...string) Program {
	return Program{Name: name, Package: "github.com/containerd/containerd/v2/cmd/" + name, VersionArgs: version}
}

func prometheus(name string) Program {
	return Program{Name: name, Package: "github.com/prometheus/prometheus/cmd/" + name, VersionArgs: []string{"--version"}}
}

// keda is one of KEDA's programs. They do not tell their version, so that only
// the cache's are found.
func keda(name string) Program {
	return Program{Name: "keda-" + name, Package: "github.com/kedacore/keda/v2/cmd/" + name, VersionArgs: []string{"--help"}}
}

// kubernetesFlags gives the programs the version that a release build has:
// without it the API server calls itself v0.0.0-master.
func kubernetesFlags() string {
	numbers := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, KubernetesVersion, numbers[0], numbers[1])
	}
	return flags
}
