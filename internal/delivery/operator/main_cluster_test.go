//go:build cluster

package operator_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
	"modeldock.io/internal/delivery/operator"
	"modeldock.io/test/apiserver"
)

// adminConfig is the administrator's access to the control plane of this
// package's tests; TestMain sets it once.
var adminConfig *rest.Config

// TestMain starts a real etcd, API server and controller manager. There is no
// kubelet and no scheduler: tests say what those would say.
func TestMain(m *testing.M) {
	flag.Parse()
	logger := logr.Discard()
	if testing.Verbose() {
		logger = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	}
	ctrl.SetLogger(logger)
	os.Exit(withControlPlane(m))
}

func withControlPlane(m *testing.M) int {
	programs := map[string]string{"etcd": "", "kube-apiserver": "", "kube-controller-manager": ""}
	for name := range programs {
		path, err := apiserver.Program(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "find what these tests need:", err)
			return 1
		}
		programs[name] = path
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "..", "deploy", "charts", "modeldock", "crds")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.Etcd = &envtest.Etcd{Path: programs["etcd"]}
	env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	env.ControlPlane.GetAPIServer().Path = programs["kube-apiserver"]
	env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the control plane:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
		}
	}()
	stop, err := startControllers(programs["kube-controller-manager"], env.KubeConfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the controller manager:", err)
		return 1
	}
	defer stop()
	adminConfig = config
	if err := installRights(config); err != nil {
		fmt.Fprintln(os.Stderr, "install the operator's rights:", err)
		return 1
	}
	return m.Run()
}

// installRights applies the manifests that an installation applies.
func installRights(config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	manifests := deploy.System + "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: modeldock}"
	for _, name := range []string{"operator", "claims"} {
		text, err := deploy.Rights.ReadFile("charts/modeldock/rights/" + name + ".yaml")
		if err != nil {
			return err
		}
		manifests += "\n---\n" + string(text)
	}
	for _, part := range strings.Split(manifests, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), o); err != nil {
			return err
		}
		if err := c.Create(context.Background(), o); err != nil {
			return err
		}
	}
	return nil
}

// operatorConfig is the operator's own access: every test runs with the rights
// that it is given, and no others.
func operatorConfig() *rest.Config {
	c := operator.RestConfig(adminConfig, 500, 1000)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:modeldock-system:modeldock-controller",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return c
}

// startControllers runs the controllers that a Deployment needs to become Pods
// and to be collected again.
func startControllers(binary string, kubeconfig []byte) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "operator-test-")
	if err != nil {
		return nil, err
	}
	access := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(access, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), binary,
		"--kubeconfig", access, "--authentication-kubeconfig", access, "--authorization-kubeconfig", access,
		"--controllers", "deployment-controller,replicaset-controller,garbage-collector-controller,endpointslice-controller,resourceclaim-controller",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// roundTrip is an http.RoundTripper as a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
