package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/management"
	"modeldock.io/test/mariadb"
)

// Image is what Pods of releases run.
const Image = "modeldock.test/modeldock"

// LoadImage builds the image as `make image` does and puts it on every node.
func LoadImage(ctx context.Context, c *cluster.Cluster, binary, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "run", ".", "--binary", binary, "--name", Image+":1", "--out", dir)
	cmd.Dir, cmd.Env = "../../../deploy/image", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w: %s", err, out)
	}
	return c.LoadArchive(ctx, filepath.Join(dir, filepath.Base(binary)+".tar"))
}

// Release is one installation of the chart, with a database of its own outside
// of the cluster.
type Release struct {
	Name      string // of the release
	Namespace string
	API       string // URLs that this machine reaches
	Gateway   string
	Keys      map[string]string

	helm     Helm
	cluster  *cluster.Cluster
	client   kubernetes.Interface
	forwards []*Forwarder
	values   string // file
}

// Prepare makes all that a release needs beforehand: namespace, secrets, and
// the ways in and out that Services would be.
func Prepare(ctx context.Context, c *cluster.Cluster, db *mariadb.Server, name, dir string) (*Release, error) {
	helm, err := FindHelm(ctx, c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	r := &Release{Name: name, Namespace: name + "-system", Keys: map[string]string{}, helm: helm, cluster: c, client: client, values: filepath.Join(dir, name+".json")}
	if err := r.prepare(ctx, db); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Release) prepare(ctx context.Context, db *mariadb.Server) error {
	host, port := r.cluster.APIServerAddress()
	full := r.Name + "-modeldock"
	var at []string
	for _, behind := range []func(context.Context) (string, error){
		To(db.Addr),
		Service(r.client, r.Namespace, full+"-controller", "api"),
		Service(r.client, r.Namespace, full+"-controller", "gateways"),
		Service(r.client, r.Namespace, full+"-gateway", "inference"),
		Service(r.client, r.Namespace, full+"-gateway-ops", "ops"),
	} {
		f, err := Forward(host, behind)
		if err != nil {
			return err
		}
		r.forwards, at = append(r.forwards, f), append(at, f.Address)
	}
	r.API, r.Gateway = "http://"+at[1], "http://"+at[3]
	database, _, err := db.Create(ctx)
	if err != nil {
		return err
	}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: r.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the namespace: %w", err)
	}
	for secret, entry := range map[string][2]string{
		"database": {"dsn", mariadb.TCP(at[0], database)},
		"gateways": {"token", strings.Repeat(r.Name+"-0123456789", 4)},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, StringData: map[string]string{entry[0]: entry[1]}}
		if _, err := r.client.CoreV1().Secrets(r.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make the secrets: %w", err)
		}
	}
	text, err := json.Marshal(map[string]any{
		"image":        map[string]any{"repository": Image, "tag": "1", "pullPolicy": "Never"},
		"database":     map[string]any{"secretName": "database"},
		"gatewayToken": map[string]any{"secretName": "gateways"},
		"kubernetes":   map[string]any{"host": host, "port": port},
		"controller":   map[string]any{"gatewayURL": r.Gateway, "gatewayOps": []string{"http://" + at[4]}, "drainDelay": "1s"},
		"gateway":      map[string]any{"controlURLs": []string{"http://" + at[2]}, "stopGraceSeconds": 90},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(r.values, text, 0o600)
}

// Install installs the chart and reads the admin's key.
func (r *Release) Install(ctx context.Context) error {
	if _, err := r.helm.Run(ctx, "install", r.Name, Folder, "--namespace", r.Namespace, "--values", r.values, "--wait", "--timeout", "5m"); err != nil {
		return errors.Join(err, r.state(ctx))
	}
	s, err := r.client.CoreV1().Secrets(r.Namespace).Get(ctx, r.Name+"-modeldock-admin-key", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the admin's key: %w", err)
	}
	return json.Unmarshal(s.Data["keys.json"], &r.Keys)
}

// Upgrade changes values, which begins every Pod of controllers and gateways anew.
func (r *Release) Upgrade(ctx context.Context, set string) error {
	if _, err := r.helm.Run(ctx, "upgrade", r.Name, Folder, "--namespace", r.Namespace, "--values", r.values, "--set", set, "--wait", "--timeout", "5m"); err != nil {
		return errors.Join(err, r.state(ctx))
	}
	return nil
}

// Uninstall takes the release away.
func (r *Release) Uninstall(ctx context.Context) error {
	_, err := r.helm.Run(ctx, "uninstall", r.Name, "--namespace", r.Namespace, "--wait", "--timeout", "5m")
	return err
}

// Tenant makes a tenant with two slots and its key.
func (r *Release) Tenant(ctx context.Context, tenant string) (management.Client, error) {
	admin := management.Client{URL: r.API, Key: r.Keys["admin"]}
	var key struct{ Key string }
	err := errors.Join(
		admin.Call(ctx, http.MethodPut, "/tenants/"+tenant+"/quota", map[string]any{"cap": 2}, nil),
		admin.Call(ctx, http.MethodPut, "/tenants/"+tenant+"/engines", map[string]any{"allow": []string{"*"}}, nil),
		admin.Call(ctx, http.MethodPost, "/keys", map[string]any{"tenant": tenant, "role": "tenant"}, &key),
	)
	r.Keys[tenant] = key.Key
	return management.Client{URL: r.API, Key: key.Key}, err
}

// state is what the release's Pods say, for a failure.
func (r *Release) state(ctx context.Context) error {
	pods, err := r.cluster.Kubectl(ctx, "-n", r.Namespace, "get", "pods,jobs,events", "-o", "wide")
	logs, logErr := r.cluster.Kubectl(ctx, "-n", r.Namespace, "logs", "-l", "app.kubernetes.io/instance="+r.Name, "--all-containers", "--prefix", "--tail=30")
	return errors.Join(fmt.Errorf("%s\n%s", pods, logs), err, logErr)
}

// Close ends the ways in and out.
func (r *Release) Close() {
	for _, f := range r.forwards {
		f.Stop()
	}
}
