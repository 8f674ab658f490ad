// Package dock puts ModelDock on a test cluster: its custom resource, its
// image, a database, and controllers and gateways as processes of this
// machine, with the rights that an installation gives them.
package dock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"modeldock.io/deploy"
	"modeldock.io/test/cluster"
	"modeldock.io/test/mariadb"
)

// Names on the cluster.
const (
	Namespace = "modeldock" // of the ModelServices
	System    = "modeldock-system"
	Image     = "modeldock.test/modeldock:1"
)

// engineUser is whom containers of the image run as.
const engineUser = "10001"

// Options say what is put on the cluster.
type Options struct {
	Cluster     *cluster.Cluster
	Binary      string   // a static `modeldock`
	Dir         string   // of logs, keys.json and urls.json
	Controllers int      // default 2
	Gateways    int      // default 1
	PoolCap     int64    // default 8
	TenantCap   int64    // of team-a and team-b; default 2
	Flags       []string // of every controller, beside the usual ones
	// Name tells several of them on one cluster apart: it is part of their
	// namespaces. Empty: the usual names.
	Name     string
	Database *mariadb.Server // nil: one of its own
	// HasImage says that LoadImage was called for this cluster.
	HasImage bool
	// Cards of the cluster; nil: models ask for none.
	Cards *Cards
}

// LoadImage brings the program to the nodes, as the simulated engine's image.
func LoadImage(ctx context.Context, c *cluster.Cluster, binary string) error {
	return c.LoadImage(ctx, cluster.Image{Name: Image, Files: map[string]string{"/modeldock": binary}, Entrypoint: []string{"/modeldock"}, User: engineUser})
}

func (o Options) namespace() string { return suffixed(Namespace, o.Name) }

func (o Options) system() string { return suffixed(System, o.Name) }

func suffixed(name, with string) string {
	if with == "" {
		return name
	}
	return name + "-" + with
}

// Dock is ModelDock on a cluster.
type Dock struct {
	Controllers []*Process
	Gateways    []*Process
	Keys        map[string]string // of "admin", "team-a", "team-b"
	Database    *mariadb.Server

	options Options
	dsn     string
	token   string
}

// Start puts ModelDock on the cluster and returns when it answers.
func Start(ctx context.Context, o Options) (*Dock, error) {
	if o.Controllers == 0 {
		o.Controllers = 2
	}
	if o.Gateways == 0 {
		o.Gateways = 1
	}
	if o.PoolCap == 0 {
		o.PoolCap = 8
	}
	if o.TenantCap == 0 {
		o.TenantCap = 2
	}
	d := &Dock{options: o}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

func (d *Dock) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(d.options.Dir, "logs"), 0o700); err != nil {
		return fmt.Errorf("make ModelDock's folder: %w", err)
	}
	for _, step := range []func(context.Context) error{d.prepareCluster, d.prepareLedger, d.prepareProcesses} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, p := range append(append([]*Process{}, d.Controllers...), d.Gateways...) {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := d.furnish(ctx); err != nil {
		return err
	}
	for _, p := range d.Controllers {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return d.describe()
}

// prepareCluster makes namespaces, rights and the custom resource, and brings
// the image of the simulated engine.
func (d *Dock) prepareCluster(ctx context.Context) error {
	c := d.options.Cluster
	labels := "{}"
	if d.options.Cards != nil {
		labels = tenants
	}
	if err := c.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+d.Namespace()+", labels: "+labels+"}\n"); err != nil {
		return err
	}
	if err := c.Apply(ctx, d.named(deploy.System)); err != nil {
		return err
	}
	for _, from := range []fs.FS{deploy.CRDs, deploy.Rights} {
		err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(from, path)
			if err != nil {
				return err
			}
			return c.Apply(ctx, d.named(string(text)))
		})
		if err != nil {
			return fmt.Errorf("apply ModelDock's manifests: %w", err)
		}
	}
	if d.options.HasImage {
		return nil
	}
	return LoadImage(ctx, c, d.options.Binary)
}

// Namespace is where its ModelServices are.
func (d *Dock) Namespace() string { return d.options.namespace() }

// Name is what tells it from others on the cluster.
func (d *Dock) Name() string { return d.options.Name }

// named gives a manifest the names of this installation. What it grants on the
// whole cluster is told apart by name, and the custom resource is everybody's.
func (d *Dock) named(manifests string) string {
	if d.options.Name == "" {
		return manifests
	}
	documents := strings.Split(manifests, "\n---\n")
	for i, text := range documents {
		text = strings.ReplaceAll(text, System, d.options.system())
		text = strings.ReplaceAll(text, "  namespace: "+Namespace+"\n", "  namespace: "+d.Namespace()+"\n")
		if strings.Contains(text, "kind: ClusterRoleBinding") {
			text = strings.Replace(text, "metadata:\n  name: ", "metadata:\n  name: "+d.options.Name+"-", 1)
		}
		documents[i] = text
	}
	return strings.Join(documents, "\n---\n")
}

// prepareLedger starts a database and makes its first key.
func (d *Dock) prepareLedger(ctx context.Context) (err error) {
	if d.Database = d.options.Database; d.Database == nil {
		if d.Database, err = mariadb.Start(ctx, ""); err != nil {
			return err
		}
	}
	name, _, err := d.Database.Create(ctx)
	if err != nil {
		return err
	}
	d.dsn = d.Database.DSN(name)
	cmd := exec.CommandContext(ctx, d.options.Binary, "key", "bootstrap", "--pool-cap", strconv.FormatInt(d.options.PoolCap, 10))
	cmd.Env = append(os.Environ(), "MODELDOCK_MYSQL_DSN="+d.dsn)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("prepare the ledger: %w: %s", err, out)
	}
	if err := json.Unmarshal(out, &d.Keys); err != nil {
		return fmt.Errorf("read the first key: %w", err)
	}
	d.token = strings.Repeat(d.Keys["admin"][len("mdk_"):], 2)[:40]
	return nil
}

// prepareProcesses gives every process its address, its rights and its flags.
func (d *Dock) prepareProcesses(context.Context) error {
	controller, err := d.options.Cluster.AddUser("system:serviceaccount:"+d.options.system()+":modeldock-controller", "system:serviceaccounts", "system:authenticated")
	if err != nil {
		return err
	}
	gateway, err := d.options.Cluster.AddUser("system:serviceaccount:"+d.options.system()+":modeldock-gateway", "system:serviceaccounts", "system:authenticated")
	if err != nil {
		return err
	}
	ports, err := freePorts(3*d.options.Controllers + 2*d.options.Gateways)
	if err != nil {
		return err
	}
	take := func() string {
		address := "127.0.0.1:" + ports[0]
		ports = ports[1:]
		return address
	}
	var gateways, ops, control []string
	for range d.options.Gateways {
		gateways, ops = append(gateways, take()), append(ops, take())
	}
	for i := range d.options.Controllers {
		listen, link, watched := take(), take(), take()
		control = append(control, "http://"+link)
		args := append([]string{
			d.options.Binary, "controller", "--kubernetes", "--kubeconfig", controller, "--namespace", d.Namespace(), "--system-namespace", d.options.system(), "--image", Image,
			"--listen", listen, "--ops-listen", watched, "--gateway-listen", link, "--gateway", "http://" + gateways[0], "--gateway-ops", "http://" + strings.Join(ops, ",http://"),
		}, d.options.Flags...)
		if d.options.Cards != nil {
			args = append(args, d.options.Cards.Flags()...)
		}
		p := d.process(fmt.Sprint("controller-", i), listen, args)
		p.Ops = "http://" + watched
		d.Controllers = append(d.Controllers, p)
	}
	for i, listen := range gateways {
		p := d.process(fmt.Sprint("gateway-", i), listen, []string{
			d.options.Binary, "gateway", "--kubernetes", "--kubeconfig", gateway, "--namespace", d.Namespace(),
			"--listen", listen, "--ops-listen", ops[i], "--control", strings.Join(control, ","), "--state-dir", filepath.Join(d.options.Dir, fmt.Sprint("gateway-", i)),
		})
		p.Ops = "http://" + ops[i]
		d.Gateways = append(d.Gateways, p)
	}
	return nil
}

func (d *Dock) process(name, listen string, args []string) *Process {
	return &Process{
		Name: name, URL: "http://" + listen, args: args, log: filepath.Join(d.options.Dir, "logs", name+".log"),
		env: append(os.Environ(), "MODELDOCK_MYSQL_DSN="+d.dsn, "MODELDOCK_GATEWAY_TOKEN="+d.token),
	}
}

// freePorts finds ports that nobody listens on.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all are held until all are found
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// Stop ends every process and the database.
func (d *Dock) Stop() error {
	var errs []error
	for _, p := range append(append([]*Process{}, d.Gateways...), d.Controllers...) {
		errs = append(errs, p.Stop())
	}
	if d.Database != nil && d.options.Database == nil {
		errs = append(errs, d.Database.Stop())
	}
	return errors.Join(errs...)
}
