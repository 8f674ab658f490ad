//go:build cluster

package preflight

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/apiserver"
)

// site is a real API server, on which an installation comes to be.
type site struct {
	*testing.T
	server  *apiserver.Server
	admin   client.Client
	options Options
}

func setup(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{T: t}
	var err error
	if s.server, err = apiserver.Start(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.admin, err = client.New(s.server.REST, client.Options{})
	s.must(err)
	access := clientcmdapi.NewConfig()
	rest := s.server.REST
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	access.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
	access.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	access.CurrentContext = "x"
	file := filepath.Join(dir, "kubeconfig")
	s.must(clientcmd.WriteToFile(*access, file))
	s.options = Options{Version: "0.2.0", Wait: time.Minute, Cluster: &Cluster{Kubeconfig: file, Namespace: "modeldock", System: "modeldock-system", Release: "modeldock"}}
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) apply(manifests string) {
	s.Helper()
	for _, document := range strings.Split(manifests, "\n---\n") {
		o := &unstructured.Unstructured{}
		s.must(yaml.Unmarshal([]byte(document), o))
		s.must(client.IgnoreAlreadyExists(s.admin.Create(s.Context(), o)))
	}
}

// install makes what a chart would: namespaces, rights, and Deployments that
// are rolled out.
func (s *site) install(version string) {
	s.Helper()
	s.apply(deploy.System + "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: modeldock}")
	s.must(fs.WalkDir(deploy.Rights, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || withCards(e.Name()) {
			return err
		}
		text, err := fs.ReadFile(deploy.Rights, path)
		s.apply(string(text))
		return err
	}))
	for _, component := range []string{"controller", "gateway"} {
		labels := map[string]string{labelName: "modeldock", labelInstance: "modeldock", labelComponent: component}
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "modeldock-system", Name: "modeldock-" + component, Labels: labels},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: component, Image: "registry.example:5000/modeldock:" + version}}},
			}},
		}
		s.must(s.admin.Create(s.Context(), d))
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1}
		s.must(s.admin.Status().Update(s.Context(), d))
	}
}

// found looks until a finding is so: rights are known to the API server only
// some time after they were written.
func (s *site) found(part, check string, status Status, says string) Report {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r := Run(s.Context(), s.options)
		for _, f := range r.Findings {
			if f.Part == part && f.Check == check && f.Status == status && strings.Contains(f.Message, says) {
				return r
			}
		}
		if time.Now().After(deadline) {
			s.Fatalf("no finding %s/%s is %s and says %q:\n%s", part, check, status, says, lines(r))
		}
	}
}

func lines(r Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s/%s %s %s -> %s\n", f.Part, f.Check, f.Status, f.Message, f.Next)
	}
	return b.String()
}

// The story of an installation, as its owner hears it.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.found("cluster", "system namespace", Broken, "modeldock-system")
	s.found("rights", "controller", Pending, "helm install makes it")
	s.found("versions", "running", Pending, "first installation")
	s.found("crd", "version", OK, "fields of this version")

	s.install("0.1.0")
	s.found("rights", "gateway", OK, "rights that it needs")
	if r := s.found("rights", "controller", OK, "rights that it needs"); !r.Ready || r.Has(Warning) {
		t.Errorf("a good installation is not called one:\n%s", lines(r))
	}
	s.found("versions", "running", OK, "one minor version before")

	// One that lacks a right: the upgrade grants it, or, in the same version, somebody has to.
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "modeldock", Name: "modeldock-gateway"}}
	s.must(s.admin.Delete(t.Context(), binding))
	s.found("rights", "gateway", Pending, "which the upgrade grants")
	s.options.Version = "0.1.0"
	s.found("rights", "gateway", Broken, "watch endpointslices.discovery.k8s.io in modeldock")
	s.options.Version = "0.2.0"

	// One that may do everything.
	s.must(s.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "far-too-much"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "modeldock-system", Name: "modeldock-gateway"}},
	}))
	s.found("rights", "gateway", Warning, "get secrets in modeldock-system")
}

// The caller's own rights, which a Pod of an installation asks for.
func TestOwnRights(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.install("0.2.0")
	s.options.Cluster.Self = "controller"
	s.found("rights", "controller", OK, "rights that it needs") // the administrator's
	s.options.Cluster.Self = "cook"
	s.found("rights", "cook", Broken, "there are agent, controller, gateway, scheduler")
}

// A custom resource of before, and a ledger that is older than the objects.
func TestOlderThanWhatIsThere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.install("0.2.0")
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	s.must(s.admin.Get(t.Context(), client.ObjectKey{Name: "modelservices.modeldock.io"}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	s.must(err)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas")
	s.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	s.must(s.admin.Update(t.Context(), crd))
	r := s.found("crd", "version", Broken, ".spec.replicas")
	if r.Ready {
		t.Error("it is called ready")
	}

	s.must(s.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "modeldock-system", Name: stampsName}, Data: map[string]string{"one": "90"}}))
	ledgerAt := func(incarnation string, seq, later int64) known {
		return known{incarnation, seq, func(context.Context) (sqlledger.Inspection, error) {
			return sqlledger.Inspection{Incarnation: incarnation, JournalSeq: later}, nil
		}}
	}
	for _, test := range []struct {
		ledger known
		status Status
	}{
		{ledgerAt("one", 89, 89), Broken}, {ledgerAt("one", 90, 90), OK}, {ledgerAt("another", 1000, 1000), Warning},
		{ledgerAt("one", 80, 95), OK}, // it went on
	} {
		k := &inspector{look: &look{part: "ledger"}, Cluster: *s.options.Cluster}
		if !k.connect(t.Context()) {
			t.Fatal(k.all)
		}
		k.all = nil
		ledger := make(chan known, 1)
		ledger <- test.ledger
		k.stamps(context.WithoutCancel(t.Context()), ledger)
		if len(k.all) != 1 || k.all[0].Status != test.status {
			t.Errorf("%+v: %+v", test.ledger, k.all)
		}
	}
}
