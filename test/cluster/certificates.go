package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Users that the components are, and the groups that give them their rights.
const (
	adminUser             = "admin"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	adminGroup            = "system:masters"
	nodeGroup             = "system:nodes"
	frontProxyName        = "front-proxy"

	serviceRange = "10.96.0.0/16"
	serviceFirst = "10.96.0.1" // the Service "kubernetes"
)

// certificates are the files of the cluster's authorities and components.
type certificates struct {
	dir                                           string
	ca, frontCA, etcdCA                           *authority
	apiServer, kubeletClient, front, etcd, tokens keyPair
	etcdClient, apiClient                         *http.Client
}

func newCertificates(dir, apiHost string, now time.Time) (certificates, error) {
	c := certificates{dir: dir}
	var err error
	for _, a := range []struct {
		name string
		at   **authority
	}{{"ca", &c.ca}, {"front-proxy-ca", &c.frontCA}, {"etcd-ca", &c.etcdCA}} {
		if *a.at, err = newAuthority(dir, a.name, now); err != nil {
			return c, err
		}
	}
	for _, p := range []struct {
		by   *authority
		file string
		id   identity
		at   *keyPair
	}{
		{c.ca, "kube-apiserver", identity{name: APIServer, hosts: []string{
			apiHost, "127.0.0.1", "localhost", serviceFirst, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}}, &c.apiServer},
		{c.ca, "kubelet-client", identity{name: "kube-apiserver-kubelet-client", groups: []string{adminGroup}}, &c.kubeletClient},
		{c.frontCA, "front-proxy", identity{name: frontProxyName}, &c.front},
		{c.etcdCA, "etcd", identity{name: Etcd, hosts: []string{"127.0.0.1", "localhost"}}, &c.etcd},
	} {
		if *p.at, err = p.by.issue(dir, p.file, p.id); err != nil {
			return c, err
		}
	}
	if c.tokens, err = signingKey(dir); err != nil {
		return c, err
	}
	if c.etcdClient, err = httpClient(c.etcdCA.File, c.etcd); err != nil {
		return c, err
	}
	c.apiClient, err = httpClient(c.ca.File, c.kubeletClient)
	return c, err
}

// httpClient speaks TLS as the given identity. It opens a connection per
// request, as the servers it asks come and go.
func httpClient(caFile string, as keyPair) (*http.Client, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read an authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(as.Cert, as.Key)
	if err != nil {
		return nil, fmt.Errorf("read a client certificate: %w", err)
	}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}},
	}, nil
}

// unverified is for health checks of components that sign their certificate
// themselves; nothing secret is sent.
func unverified() *http.Client {
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
}
