package preflight

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
	"modeldock.io/internal/budget/sqlledger"
)

func TestSkew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		status   Status
		says     string
	}{
		{"0.1.0", "0.1.3", OK, "same minor"},
		{"v0.1.0", "0.2.0", OK, "one minor version before"},
		{"0.1.0", "0.3.0", Warning, "more than one"},
		{"0.2.0", "0.1.0", Warning, "newer"},
		{"0.9.0", "1.0.0", Warning, "more than one"},
		{"1.0.0", "0.9.0", Warning, "newer"},
		{"dev", "0.1.0", OK, "no two releases"},
	} {
		if status, message, next := skew(test.from, test.to); status != test.status || !strings.Contains(message, test.says) || (status == OK) != (next == "") {
			t.Errorf("%s to %s: %s, %q, %q", test.from, test.to, status, message, next)
		}
	}
}

func TestServerVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Status{
		"10.11.14-MariaDB-0+deb12u2": OK, "10.6.0-MariaDB": OK, "5.5.5-10.5.9-MariaDB": Broken, "10.5.27-MariaDB": Broken,
		"8.0.36": OK, "8.4.1-commercial": OK, "5.7.44-log": Broken, "TiDB": Unknown,
	} {
		l := &look{part: "database"}
		serverVersion(l, text)
		if len(l.all) != 1 || l.all[0].Status != want || (want != OK) != (l.all[0].Next != "") {
			t.Errorf("%s: %+v", text, l.all)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  map[string]string
		want []Status
	}{
		{map[string]string{"read_only": "0", "innodb_flush_log_at_trx_commit": "1", "max_connections": "151"}, []Status{OK}},
		{map[string]string{"read_only": "ON", "innodb_flush_log_at_trx_commit": "2", "max_connections": "20"}, []Status{Broken, Warning, Warning}},
		{nil, []Status{OK}},
	} {
		l := &look{}
		settings(l, test.set)
		var got []Status
		for _, f := range l.all {
			got = append(got, f.Status)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: %+v", test.set, l.all)
		}
	}
}

// A custom resource that lacks a field would make the API server drop it.
func TestCustomResourcesAreCompared(t *testing.T) {
	t.Parallel()
	read := func() (crd apiextensionsv1.CustomResourceDefinition) {
		text, err := deploy.CRDs.ReadFile(crdFile)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &crd)
		}
		if err != nil {
			t.Fatal(err)
		}
		crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
		return crd
	}
	spec := func(crd apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	for _, test := range []struct {
		name   string
		change func(apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition
		status Status
		says   string
	}{
		{"the same", func(c apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition { return c }, OK, "fields of this version"},
		{"older", func(c apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition {
			delete(spec(c), "replicas")
			return c
		}, Broken, ".spec.replicas"},
		{"newer", func(c apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition {
			spec(c)["later"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			return c
		}, Warning, ".spec.later"},
		{"not served", func(c apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition {
			c.Spec.Versions[0].Served = false
			return c
		}, Broken, "does not serve"},
		{"stored as something else", func(c apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinition {
			c.Status.StoredVersions = append(c.Status.StoredVersions, "v2")
			return c
		}, Broken, "stored as v2"},
	} {
		k := &inspector{look: &look{part: "crd"}}
		k.compare(read(), test.change(read()), "apply it")
		last := k.all[len(k.all)-1]
		if last.Status != test.status || !strings.Contains(last.Message, test.says) {
			t.Errorf("%s: %+v", test.name, k.all)
		}
	}
}

// What each process needs is read from the manifests themselves.
func TestGranted(t *testing.T) {
	t.Parallel()
	all, err := Granted("sys", "mod")
	if err != nil {
		t.Fatal(err)
	}
	for process, rights := range map[string][]Right{
		"controller": {{"mod", "modeldock.io", "modelservices", "", "create"}, {"", "", "nodes", "", "list"}, {"sys", "coordination.k8s.io", "leases", "", "update"}, {"mod", "", "pods", "log", "get"}},
		"gateway":    {{"mod", "discovery.k8s.io", "endpointslices", "", "watch"}},
	} {
		for _, r := range rights {
			if !all[process][r] {
				t.Errorf("%s should be granted %s; it has %v", process, r, all[process])
			}
		}
	}
	if all["gateway"][Right{"mod", "", "pods", "", "get"}] {
		t.Error("a gateway reads no Pods")
	}
	for process, rights := range all {
		for _, r := range Excessive("sys", "mod") {
			everywhere := r
			everywhere.Namespace = ""
			if rights[r] || rights[everywhere] {
				t.Errorf("%s is granted %s by its manifest, which no process needs", process, r)
			}
		}
	}
}

// A ledger of one machine, before its first start and after it.
func TestOneMachine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	report := Run(t.Context(), Options{Version: "dev", Wait: time.Minute, File: path})
	if !report.Ready || len(report.Findings) != 1 || report.Findings[0].Status != Pending {
		t.Errorf("before the first start: %+v", report)
	}
	l, err := sqlledger.OpenSQLite(t.Context(), path, sqlledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	report = Run(t.Context(), Options{Version: "dev", Wait: time.Minute, File: path})
	if !report.Ready || report.Has(Pending) || len(report.Findings) != 3 {
		t.Errorf("after it: %+v", report)
	}
	incarnation, _, err := l.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for stamp, want := range map[string]Status{
		`{"version":1,"ledgers":{"` + incarnation + `":0}}`:               OK,
		`{"version":1,"ledgers":{"` + incarnation + `":7,"another":900}}`: Broken,
		`{"version":1,"ledgers":{"another":900}}`:                         Warning,
		`{`: Broken,
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ledger.stamp"), []byte(stamp), 0o600); err != nil {
			t.Fatal(err)
		}
		report = Run(t.Context(), Options{Version: "dev", Wait: time.Minute, File: path})
		last := report.Findings[len(report.Findings)-1]
		if len(report.Findings) != 4 || last.Check != "age" || last.Status != want || report.Ready != (want != Broken) {
			t.Errorf("with the stamp %s: %+v", stamp, report)
		}
	}
}

// Everything that cannot be reached is named at once, and no secret with it.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	report := Run(t.Context(), Options{
		Version: "dev", Wait: time.Minute, DSN: "u:planted-secret@tcp(127.0.0.1:1)/ledger", RedisURL: "redis://:planted-secret@127.0.0.1:1/0",
		Cluster: &Cluster{Kubeconfig: filepath.Join(t.TempDir(), "nowhere")},
	})
	broken := map[string]bool{}
	for _, f := range report.Findings {
		if strings.Contains(f.Message+f.Next, "planted-secret") {
			t.Errorf("a secret is shown: %+v", f)
		}
		if f.Status == Broken && f.Check == checkReach {
			broken[f.Part] = true
		}
	}
	if report.Ready || len(broken) != 3 {
		t.Errorf("%+v", report)
	}
}
