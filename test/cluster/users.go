package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the file of a user who may do everything.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// AddUser issues a client certificate and returns the kubeconfig that uses it.
// What the user may do is decided by RBAC, for the name and for the groups.
func (c *Cluster) AddUser(name string, groups ...string) (kubeconfig string, err error) {
	path := c.userFile(name)
	return path, c.writeUser(path, name, groups)
}

// userFile is where a user's kubeconfig is.
func (c *Cluster) userFile(name string) string {
	if name == adminUser {
		return c.Kubeconfig()
	}
	return filepath.Join(c.Dir, "users", fileName(name)+".kubeconfig")
}

func fileName(user string) string {
	return strings.NewReplacer(":", "_", "/", "_").Replace(user)
}

func (c *Cluster) writeUser(path, name string, groups []string) error {
	pair, err := c.certs.ca.issue(c.certs.dir, "user-"+fileName(name), identity{name: name, groups: groups})
	if err != nil {
		return err
	}
	var contents [3][]byte
	for i, file := range []string{c.certs.ca.File, pair.Cert, pair.Key} {
		if contents[i], err = os.ReadFile(file); err != nil {
			return fmt.Errorf("read what the kubeconfig of %s contains: %w", name, err)
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.at.url(), CertificateAuthorityData: contents[0]}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: name}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return nil
}

// RESTConfig is the admin's access for client libraries, without a client-side
// limit worth mentioning.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the admin's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 1000, 2000
	return config, nil
}

// Client is the admin's typed client.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the test cluster: %w", err)
	}
	return client, nil
}
