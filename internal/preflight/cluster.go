package preflight

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"modeldock.io/internal/kube"
)

// Cluster says which Kubernetes is looked at, and where the installation is.
type Cluster struct {
	Kubeconfig string
	Namespace  string // of the ModelServices
	System     string // of the installation
	Release    string // Helm's name of it
	// Self is the process whose rights the caller itself must have, such as
	// "controller"; empty: the accounts of all processes are looked at.
	Self string
}

// oldestKubernetes is the chart's kubeVersion.
var oldestKubernetes = [2]int{1, 30}

// inspector is one look at a cluster.
type inspector struct {
	*look
	Cluster
	version string
	cfg     *rest.Config
	client  kubernetes.Interface
	// installed is the version that runs; empty if nothing does.
	installed string
}

func (c *Cluster) look(ctx context.Context, version string, ledger <-chan known) []Finding {
	k := &inspector{look: &look{part: "cluster"}, Cluster: *c, version: version}
	if !k.connect(ctx) {
		return k.all
	}
	k.namespaces(ctx)
	k.part = "versions"
	k.versions(ctx)
	k.part = "crd"
	k.customResource(ctx)
	k.part = "rights"
	k.rights(ctx)
	k.part = "ledger"
	k.stamps(ctx, ledger)
	return k.all
}

// name is what the chart's helper of that name makes of a release.
func (c *Cluster) name() string {
	if strings.Contains(c.Release, "modeldock") {
		return c.Release
	}
	return c.Release + "-modeldock"
}

func (k *inspector) connect(ctx context.Context) bool {
	const next = "start it, or name another kubeconfig by --kubeconfig"
	var err error
	if k.cfg, err = kube.Config(k.Kubeconfig); err != nil {
		k.add(checkReach, Broken, err.Error(), "")
		return false
	}
	if k.client, err = kubernetes.NewForConfig(kube.Configured(k.cfg, "modeldock-preflight")); err != nil {
		k.add(checkReach, Broken, err.Error(), next)
		return false
	}
	raw, err := k.client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		k.add(checkReach, Broken, fmt.Sprintf("the API server %s does not answer: %v", k.cfg.Host, err), next)
		return false
	}
	k.add(checkReach, OK, "the API server "+k.cfg.Host+" answers", "")
	var info struct{ GitVersion string }
	if err := decode(raw, &info); err != nil {
		k.add(checkVersion, Unknown, err.Error(), "")
		return true
	}
	have, ok := minor(info.GitVersion)
	switch {
	case !ok:
		k.add(checkVersion, Unknown, fmt.Sprintf("the API server calls itself %q", info.GitVersion), "")
	case less(have, oldestKubernetes):
		k.add(checkVersion, Broken, fmt.Sprintf("Kubernetes %s is too old; %d.%d or newer is needed", info.GitVersion, oldestKubernetes[0], oldestKubernetes[1]), "upgrade the cluster first")
	default:
		k.add(checkVersion, OK, "Kubernetes "+info.GitVersion, "")
		k.kubelets(ctx, have)
	}
	return true
}

// kubelets looks for nodes that are too old, or newer than the API server,
// which Kubernetes does not support.
func (k *inspector) kubelets(ctx context.Context, server [2]int) {
	nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		k.add("nodes", Unknown, "the nodes cannot be listed: "+err.Error(), "look with an account that may list nodes")
		return
	}
	var odd []string
	status := Warning
	for _, n := range nodes.Items {
		have, ok := minor(n.Status.NodeInfo.KubeletVersion)
		if ok && less(have, oldestKubernetes) {
			status = Broken
		}
		if !ok || less(have, oldestKubernetes) || less(server, have) {
			odd = append(odd, n.Name+" ("+n.Status.NodeInfo.KubeletVersion+")")
		}
	}
	if len(odd) > 0 {
		k.add("nodes", status, fmt.Sprintf("%d of %d nodes run a kubelet that is too old or newer than the API server: %s", len(odd), len(nodes.Items), few(odd)), "bring the kubelets to the API server's version")
		return
	}
	k.add("nodes", OK, fmt.Sprintf("%d nodes", len(nodes.Items)), "")
}

// few is a list for people: what is beyond ten is counted.
func few(list []string) string {
	if len(list) > 10 {
		return strings.Join(list[:10], ", ") + fmt.Sprintf(" and %d more", len(list)-10)
	}
	return strings.Join(list, ", ")
}

// namespaces looks for those of the installation and of its models.
func (k *inspector) namespaces(ctx context.Context) {
	for _, each := range [][2]string{{"system namespace", k.System}, {"models' namespace", k.Namespace}} {
		check, name := each[0], each[1]
		ns, err := k.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && name == k.System:
			k.add(check, Broken, "there is no namespace "+name, "kubectl create namespace "+name+", or name another one by --system-namespace")
		case apierrors.IsNotFound(err):
			k.add(check, Pending, "there is no namespace "+name+"; the chart makes it", "")
		case err != nil:
			k.add(check, Unknown, "the namespace "+name+" cannot be read: "+err.Error(), "look with an account that may read namespaces")
		case ns.Status.Phase == corev1.NamespaceTerminating:
			k.add(check, Broken, "the namespace "+name+" is being deleted", "wait until it is gone; see what its conditions name")
		default:
			k.add(check, OK, "namespace "+name, "")
		}
	}
}

// stampsName is the ConfigMap by which an older copy of a ledger is recognised.
const stampsName = "modeldock-ledger"

// stamps compares the ledger with what was delivered to this cluster.
func (k *inspector) stamps(ctx context.Context, ledger <-chan known) {
	db, ok := <-ledger
	if !ok {
		return // none was named, or none is there
	}
	m, err := k.client.CoreV1().ConfigMaps(k.System).Get(ctx, stampsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		k.add("age", OK, "nothing was delivered to this cluster yet", "")
		return
	}
	if err != nil {
		k.add("age", Unknown, fmt.Sprintf("ConfigMap %s/%s cannot be read: %v", k.System, stampsName, err), "look with an account that may read it")
		return
	}
	text, stamped := m.Data[db.incarnation]
	seq, err := strconv.ParseInt(text, 10, 64)
	end := db.end(ctx, seq)
	switch {
	case !stamped && len(m.Data) > 0:
		k.add("age", Warning, fmt.Sprintf("this cluster was delivered to from %d other ledgers, and never from %s", len(m.Data), db.incarnation), "if the DSN should name another database, correct it; a new ledger leaves the others' objects alone")
	case !stamped:
		k.add("age", OK, "nothing was delivered to this cluster yet", "")
	case err != nil:
		k.add("age", Broken, fmt.Sprintf("ConfigMap %s/%s says %q for %s, which is no journal number", k.System, stampsName, text, db.incarnation), "put the number back, or remove the entry if the ledger is the newest")
	case seq > end:
		k.add("age", Broken, fmt.Sprintf("the ledger's journal ends at %d and deliveries were made at %d: an older copy came back, and it will stand still", end, seq), "see docs/backup.md; bring the newest copy back, or accept this one by `modeldock ledger import --accept-older`")
	default:
		k.add("age", OK, fmt.Sprintf("the journal ends at %d, deliveries at %d", end, seq), "")
	}
}
