// Package apiserver starts a real etcd and a real kube-apiserver with the
// custom resource for tests, and puts a proxy before it that loses answers and
// cuts connections. Nothing runs there that would start a Pod or collect
// garbage: tests write what controllers would.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
	"modeldock.io/internal/kube"
)

// Versions of the binaries, as they are named in the cache.
const (
	kubernetesVersion = "v1.37.2"
	etcdVersion       = "v3.7.3"
)

// startWait is ample for busy machines.
const startWait = 2 * time.Minute

// Server is a running API server with its etcd.
type Server struct {
	REST   *rest.Config
	Client client.WithWatch // of an administrator
	env    *envtest.Environment
}

// Start starts a server that keeps its files in dir. Whoever starts one stops it.
func Start(dir string) (*Server, error) {
	api, err := Program("kube-apiserver")
	if err != nil {
		return nil, err
	}
	etcd, err := Program("etcd")
	if err != nil {
		return nil, err
	}
	crd, err := customResource()
	if err != nil {
		return nil, err
	}
	s := &Server{env: &envtest.Environment{
		CRDs:                     []*apiextensionsv1.CustomResourceDefinition{crd},
		ControlPlaneStartTimeout: startWait, ControlPlaneStopTimeout: startWait,
	}}
	s.env.ControlPlane.Etcd = &envtest.Etcd{Path: etcd, DataDir: filepath.Join(dir, "etcd")}
	s.env.ControlPlane.APIServer = &envtest.APIServer{Path: api, CertDir: filepath.Join(dir, "certificates")}
	// How long it waits for watches when it is stopped.
	s.env.ControlPlane.APIServer.Configure().Set("request-timeout", "5s")
	for _, d := range []string{s.env.ControlPlane.Etcd.DataDir, s.env.ControlPlane.APIServer.CertDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make the API server's folders: %w", err)
		}
	}
	if s.REST, err = s.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), s.env.Stop())
	}
	scheme, err := kube.Scheme()
	if err == nil {
		s.Client, err = client.NewWithWatch(s.REST, client.Options{Scheme: scheme})
	}
	if err != nil {
		return nil, errors.Join(err, s.env.Stop())
	}
	return s, nil
}

// Stop ends both processes.
func (s *Server) Stop() error { return s.env.Stop() }

// Away stops the API server; etcd keeps what there is.
func (s *Server) Away() error { return s.env.ControlPlane.APIServer.Stop() }

// Back starts it again, under the same address and certificates.
func (s *Server) Back() error { return s.env.ControlPlane.APIServer.Start() }

// Program finds a program in KUBEBUILDER_ASSETS or in the cache of builds.
func Program(name string) (string, error) {
	folder := "kubernetes-" + kubernetesVersion
	if name == "etcd" {
		folder = "etcd-" + etcdVersion
	}
	var tried []string
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		tried = append(tried, filepath.Join(assets, name))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		tried = append(tried, filepath.Join(cache, "modeldock", folder, name))
	}
	for _, path := range tried {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing; looked for %q: build it with scripts/cluster-build.sh, or name its folder in KUBEBUILDER_ASSETS", name, tried)
}

func customResource() (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := deploy.CRDs.ReadFile("charts/modeldock/crds/modeldock.io_modelservices.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the custom resource: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, fmt.Errorf("read the custom resource: %w", err)
	}
	return &crd, nil
}
