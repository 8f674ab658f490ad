//go:build cluster

package chart

import (
	"io/fs"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
)

var named = []string{"--set", "database.secretName=db", "--set", "gatewayToken.secretName=token"}

func setup(t *testing.T) Helm {
	t.Helper()
	h, err := FindHelm(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// render returns the documents of one kind.
func render[T any](t *testing.T, h Helm, kind string, args ...string) []T {
	t.Helper()
	text, err := h.Run(t.Context(), append(append([]string{"template", "blue", Folder, "--namespace", "sys"}, named...), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return decode[T](t, text, kind)
}

func decode[T any](t *testing.T, text, kind string) []T {
	t.Helper()
	var found []T
	for _, document := range strings.Split("\n"+text, "\n---") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if head.Kind != kind {
			continue
		}
		var v T
		if err := yaml.UnmarshalStrict([]byte(document), &v); err != nil {
			t.Fatalf("%s: %v in\n%s", kind, err, document)
		}
		found = append(found, v)
	}
	return found
}

func TestChartIsClean(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, more := range [][]string{
		nil,
		{"--set", "controller.tls.secretName=a,gateway.tls.secretName=b"},
		{"--set", "redis.secretName=r,serviceMonitor.enabled=true,controller.replicas=1,networkPolicy.enabled=false"},
		gpuPath("devicePlugin"), gpuPath("dra", "--set", "redis.secretName=r"),
	} {
		if out, err := h.Run(t.Context(), append(append([]string{"lint", "--strict", Folder}, named...), more...)...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// What is written wrongly is refused before anything is installed.
func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, c := range []struct{ set, says string }{
		{"database.secretName=", "/database/secretName"},
		{"gateway.replicaz=3", "replicaz"},
		{"gateway.replicas=0", "/gateway/replicas"},
		{"gatewayToken.token=secret", "token"}, // a secret as a value
		{"image.digest=sha256:1", "/image/digest"},
		{"models.podSecurity=none", "/models/podSecurity"},
		{"gpu.path=magic", "/gpu/path"},
		{"gpu.schedulerName=default-scheduler", "/gpu/schedulerName"},
		{"gpu.agent.kubeletDir=kubelet", "/gpu/agent/kubeletDir"},
		{"gpu.chunkMiB=0", "/gpu/chunkMiB"},
		{"gpu.chunkMiB=256Mi", "/gpu/chunkMiB"},
		{"gateway.controlURLs={controller:8082}", "/gateway/controlURLs"},
	} {
		_, err := h.Run(t.Context(), append(append([]string{"template", "x", Folder}, named...), "--set", c.set)...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

// Every Pod may do nothing that it need not.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	pods := map[string]corev1.PodSpec{}
	for _, d := range render[appsv1.Deployment](t, h, "Deployment", gpuPath("devicePlugin")...) {
		pods[d.Name] = d.Spec.Template.Spec
	}
	for _, j := range render[struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Spec             struct {
			BackoffLimit int
			Template     corev1.PodTemplateSpec
		}
	}](t, h, "Job") {
		pods["bootstrap"] = j.Spec.Template.Spec
	}
	if len(pods) != 4 {
		t.Errorf("%d kinds of Pods", len(pods))
	}
	for name, p := range pods {
		if p.SecurityContext == nil || !*p.SecurityContext.RunAsNonRoot || p.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || p.HostNetwork || p.HostPID {
			t.Errorf("%s: %+v", name, p.SecurityContext)
		}
		for _, c := range p.Containers {
			s := c.SecurityContext
			if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: %+v", name, s)
			}
			if name != "bootstrap" && (c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil || c.Resources.Limits.Memory().IsZero()) {
				t.Errorf("%s has not every probe, or no limit of memory", name)
			}
			for _, e := range c.Env {
				t.Errorf("%s has the variable %s; secrets come by file", name, e.Name)
			}
		}
	}
}

// The chart grants what the embedded manifests grant, under its own names.
func TestRightsAreTheEmbeddedOnes(t *testing.T) {
	t.Parallel()
	h := setup(t)
	want := map[string][]rbacv1.PolicyRule{}
	err := fs.WalkDir(deploy.Rights, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := deploy.Rights.ReadFile(path)
		for _, r := range decode[rbacv1.ClusterRole](t, string(text), "ClusterRole") {
			want["sys-blue-"+r.Name] = r.Rules
		}
		for _, r := range decode[rbacv1.Role](t, string(text), "Role") {
			want["blue-"+r.Name] = r.Rules
		}
		return err
	})
	if err != nil || len(want) < 4 {
		t.Fatalf("%d roles are embedded, %v", len(want), err)
	}
	got := map[string][]rbacv1.PolicyRule{}
	for _, path := range []string{"devicePlugin", "dra"} { // together they need all of them
		for _, r := range render[rbacv1.ClusterRole](t, h, "ClusterRole", "--set", "gpu.path="+path) {
			got[r.Name] = r.Rules
		}
	}
	for _, r := range render[rbacv1.Role](t, h, "Role", "--set", "bootstrap.enabled=false,gpu.path=devicePlugin") {
		got[r.Name] = r.Rules
	}
	if !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("embedded\n%v\nrendered\n%v", want, got)
	}
	accounts := map[string]bool{}
	for _, a := range render[corev1.ServiceAccount](t, h, "ServiceAccount", "--set", "gpu.path=devicePlugin") {
		accounts[a.Namespace+"/"+a.Name] = true
	}
	for _, r := range render[rbacv1.ClusterRole](t, h, "ClusterRole") {
		if strings.HasSuffix(r.Name, "-claims") || strings.HasSuffix(r.Name, "-cards") || strings.HasSuffix(r.Name, "-agent") || strings.HasSuffix(r.Name, "-holders") {
			t.Errorf("%s is granted although models have no cards", r.Name)
		}
	}
	for _, b := range render[rbacv1.ClusterRoleBinding](t, h, "ClusterRoleBinding", "--set", "gpu.path=devicePlugin") {
		_, ok := got[b.RoleRef.Name]
		ok = ok || b.RoleRef.Name == "system:kube-scheduler" || b.RoleRef.Name == "system:volume-scheduler"
		if !ok || len(b.Subjects) != 1 || !accounts[b.Subjects[0].Namespace+"/"+b.Subjects[0].Name] {
			t.Errorf("%s binds %+v to %+v", b.Name, b.RoleRef, b.Subjects)
		}
	}
	in := map[string]int{}
	for _, b := range render[rbacv1.RoleBinding](t, h, "RoleBinding", "--set", "bootstrap.enabled=false") {
		if who := b.Subjects[0].Name; who == "blue-modeldock-controller" || who == "blue-modeldock-gateway" {
			in[b.Namespace]++
		}
		if _, ok := got[b.RoleRef.Name]; !ok || len(b.Subjects) != 1 || !accounts[b.Subjects[0].Namespace+"/"+b.Subjects[0].Name] {
			t.Errorf("%s binds %+v to %+v", b.Name, b.RoleRef, b.Subjects)
		}
	}
	if in["sys-models"] != 3 || in["sys"] != 2 {
		t.Errorf("roles are bound in %v", in)
	}
}

// On the whole cluster, controllers and gateways may look at nodes and no more.
func TestRightsEndAtTheModelsNamespace(t *testing.T) {
	t.Parallel()
	h := setup(t)
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range render[rbacv1.ClusterRole](t, h, "ClusterRole") {
		rules[r.Name] = r.Rules
	}
	for _, b := range render[rbacv1.ClusterRoleBinding](t, h, "ClusterRoleBinding") {
		account := b.Subjects[0].Name
		if account != "blue-modeldock-controller" && account != "blue-modeldock-gateway" {
			continue
		}
		for _, rule := range rules[b.RoleRef.Name] {
			for _, verb := range rule.Verbs {
				if len(rule.Resources) != 1 || rule.Resources[0] != "nodes" || verb != "get" && verb != "list" && verb != "watch" {
					t.Errorf("%s may everywhere %+v", account, rule)
				}
			}
		}
	}
}

// TLS by reference to a Secret: each process gets its own pair, controllers of
// the gateways' only who signed it, and nobody a key of somebody else's.
func TestTLSIsByReference(t *testing.T) {
	t.Parallel()
	h := setup(t)
	deployments := func(args ...string) map[string]corev1.PodSpec {
		found := map[string]corev1.PodSpec{}
		for _, d := range render[appsv1.Deployment](t, h, "Deployment", args...) {
			found[d.Labels["app.kubernetes.io/component"]] = d.Spec.Template.Spec
		}
		return found
	}
	for process, p := range deployments() {
		if text := strings.Join(p.Containers[0].Args, " "); strings.Contains(text, "--tls-") || strings.Contains(text, "https://") || strings.Contains(text, "--gateway-ca") {
			t.Errorf("%s without TLS: %s", process, text)
		}
	}
	set := deployments("--set", "controller.tls.secretName=console-tls,gateway.tls.secretName=api-tls,gateway.service.port=443")
	for process, secret := range map[string]string{"controller": "console-tls", "gateway": "api-tls"} {
		p := set[process]
		args := strings.Join(p.Containers[0].Args, " ")
		if !strings.Contains(args, "--tls-cert=/etc/modeldock/tls/tls.crt --tls-key=/etc/modeldock/tls/tls.key") {
			t.Errorf("%s: %s", process, args)
		}
		for _, v := range p.Volumes {
			if v.Secret == nil || v.Name != "tls" && v.Secret.SecretName != "console-tls" && v.Secret.SecretName != "api-tls" {
				continue
			}
			var keys []string
			for _, item := range v.Secret.Items {
				keys = append(keys, item.Key)
			}
			if v.Name == "tls" && v.Secret.SecretName != secret || v.Name != "tls" && strings.Join(keys, ",") != "ca.crt" {
				t.Errorf("%s mounts %v of %s as %s", process, keys, v.Secret.SecretName, v.Name)
			}
		}
	}
	if args := strings.Join(set["controller"].Containers[0].Args, " "); !strings.Contains(args, "--gateway=https://blue-modeldock-gateway.sys.svc:443 --gateway-ca=") {
		t.Errorf("controllers forward by %s", args)
	}
}

// Engines answer gateways and controllers of their own release, controllers
// hand their snapshot to gateways, and nobody else.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	h := setup(t)
	policies := map[string]networkingv1.NetworkPolicy{}
	for _, p := range render[networkingv1.NetworkPolicy](t, h, "NetworkPolicy", "--set", "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b") {
		policies[strings.TrimPrefix(p.Name, "blue-modeldock-")] = p
	}
	models, ok := policies["models"]
	if !ok || models.Namespace != "sys-models" || len(models.Spec.Ingress) != 1 || len(models.Spec.Ingress[0].From) != 1 {
		t.Fatalf("%+v", models)
	}
	from := models.Spec.Ingress[0].From[0]
	if from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "sys" || len(from.PodSelector.MatchExpressions) != 2 || from.PodSelector.MatchExpressions[0].Values[0] != "blue" {
		t.Errorf("engines answer %+v", from)
	}
	for name, open := range map[string]map[string]bool{"controller": {"api": true, "gateways": false, "ops": false}, "gateway": {"inference": true, "ops": false}} {
		p := policies[name]
		if len(p.Spec.Ingress) != len(open) || len(p.Spec.PolicyTypes) != 1 {
			t.Errorf("%s: %+v", name, p.Spec)
		}
		for _, rule := range p.Spec.Ingress {
			port := rule.Ports[0].Port.String()
			if everybody, known := open[port]; !known || everybody != (len(rule.From) == 0) {
				t.Errorf("%s of %s answers %+v", port, name, rule.From)
			}
		}
	}
}
