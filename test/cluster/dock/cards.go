package dock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modeldock.io/deploy"
	"modeldock.io/test/cluster"
)

// The ways of cards to containers, as `modeldock controller --gpu` has them.
const (
	DevicePlugin = "device-plugin"
	DRA          = "dra"
)

const schedulerName = "modeldock-scheduler"

// CardsOptions say what makes a test cluster one with cards.
type CardsOptions struct {
	Cluster   *cluster.Cluster
	Binary    string // a static `modeldock`
	Scheduler string // a `modeldock-scheduler`; not needed for DRA
	Dir       string // of logs
	Path      string // DevicePlugin (default) or DRA
	Cards     string // of every real node, as `modeldock agent --cards` has them
	CardsFile string // instead of Cards
	Redis     string // HOST:PORT where the memory in use is published; empty: nowhere
}

// Cards are agents on the real nodes, with simulated cards, and what places
// Pods on these: modeldock-scheduler, or the cluster's own by claims. A cluster
// has them once, however many ModelDocks are on it.
type Cards struct {
	Agents    []*Process
	Scheduler *Scheduler // nil with DRA

	options CardsOptions
}

// StartCards gives the cluster its cards, and returns when every agent runs.
func StartCards(ctx context.Context, o CardsOptions) (*Cards, error) {
	if o.Path == "" {
		o.Path = DevicePlugin
	}
	c := &Cards{options: o}
	for _, step := range []func(context.Context) error{c.prepare, c.startScheduler, c.startAgents} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// prepare applies accounts, rights and policies.
func (c *Cards) prepare(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(c.options.Dir, "logs"), 0o700); err != nil {
		return fmt.Errorf("make the folder of the agents' logs: %w", err)
	}
	rights, err := deploy.RightsOf("agent", "holders", "scheduler")
	if err != nil {
		return err
	}
	for _, text := range []string{deploy.System, rights, deploy.DeviceClass, deploy.BufferPriority} {
		if err := c.options.Cluster.Apply(ctx, text); err != nil {
			return err
		}
	}
	return ApplyPolicies(ctx, c.options.Cluster, c.options.Path)
}

// ApplyPolicies tells the API server what it refuses and adds by itself.
func ApplyPolicies(ctx context.Context, c *cluster.Cluster, path string) error {
	return fs.WalkDir(deploy.Policies, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == DRA && !slices.Contains(deploy.ClaimPolicies(), entry.Name()) {
			return err
		}
		text, err := fs.ReadFile(deploy.Policies, file)
		if err != nil {
			return err
		}
		return c.Apply(ctx, string(text))
	})
}

// account is one of the system's, with its rights.
func account(c *cluster.Cluster, name string) (kubeconfig string, err error) {
	return c.AddUser("system:serviceaccount:"+System+":"+name, "system:serviceaccounts", "system:authenticated")
}

func (c *Cards) startScheduler(ctx context.Context) (err error) {
	if c.options.Path != DRA {
		c.Scheduler, err = StartScheduler(ctx, c.options.Cluster, c.options.Scheduler, c.options.Dir, c.options.Redis)
	}
	return err
}

// Scheduler is modeldock-scheduler on a test cluster. It ends with the cluster.
type Scheduler struct {
	*cluster.Component
	address string
}

// StartScheduler runs modeldock-scheduler, with its rights, beside the cluster's
// own. redis may be empty.
func StartScheduler(ctx context.Context, c *cluster.Cluster, program, dir, redis string) (*Scheduler, error) {
	kubeconfig, err := account(c, schedulerName)
	if err != nil {
		return nil, err
	}
	config := strings.Replace(deploy.SchedulerConfig, "clientConnection: {", fmt.Sprintf("clientConnection: {kubeconfig: %q, ", kubeconfig), 1)
	config = strings.Replace(config, "{leaderElect: true, ", "{leaderElect: false, ", 1) // there is one
	if redis != "" {
		config += fmt.Sprintf("    pluginConfig:\n      - {name: GPUMemoryScheduler, args: {redis: %q}}\n", redis)
	}
	path := filepath.Join(dir, schedulerName+".yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure %s: %w", schedulerName, err)
	}
	s := &Scheduler{}
	s.Component, err = c.AddGuest(ctx, schedulerName, func(port int) []string {
		s.address = "127.0.0.1:" + strconv.Itoa(port)
		return []string{program, "--config=" + path, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--authentication-skip-lookup", "--authorization-always-allow-paths=/readyz,/metrics", "--v=2"}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Metrics is what the scheduler exports.
func (s *Scheduler) Metrics(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	// Its certificate is made at its start, by itself.
	asker := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := asker.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask the scheduler for its metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (c *Cards) startAgents(ctx context.Context) error {
	kubeconfig, err := account(c.options.Cluster, "modeldock-agent")
	if err != nil {
		return err
	}
	for _, n := range c.options.Cluster.Nodes() {
		args := []string{
			c.options.Binary, "agent", "--node", n.Name, "--kubeconfig", kubeconfig, "--ops-listen", "127.0.0.1:0", "--deliver", c.options.Path,
			"--kubelet-dir", filepath.Dir(n.DevicePluginDir()), "--cdi-dir", n.CDIDir(),
		}
		if c.options.CardsFile != "" {
			args = append(args, "--cards-file", c.options.CardsFile)
		} else {
			args = append(args, "--cards", c.options.Cards)
		}
		if c.options.Redis != "" {
			args = append(args, "--redis", c.options.Redis)
		}
		name := "agent-" + n.Name
		p := &Process{Name: name, args: args, env: os.Environ(), log: filepath.Join(c.options.Dir, "logs", name+".log")}
		c.Agents = append(c.Agents, p)
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flags are what controllers are told of it.
func (c *Cards) Flags() []string {
	flags := []string{"--gpu", c.options.Path}
	if c.options.Path == DevicePlugin {
		flags = append(flags, "--gpu-scheduler", schedulerName, "--buffer-image", cluster.PauseImage)
	}
	if c.options.Redis != "" {
		flags = append(flags, "--redis", c.options.Redis)
	}
	return flags
}

// tenants is the label of namespaces where what Pods see of cards is decided
// for them.
const tenants = `{modeldock.io/tenants: ""}`

// Stop ends agents and scheduler, and takes the policies away, so that another
// way of cards may follow on the cluster.
func (c *Cards) Stop() error {
	var errs []error
	if c.Scheduler != nil {
		errs = append(errs, c.Scheduler.Kill(), c.removePolicies())
	}
	for _, p := range c.Agents {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

func (c *Cards) removePolicies() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kinds := []string{"mutatingadmissionpolicy", "validatingadmissionpolicy"}
	var names []string
	for _, kind := range kinds {
		found, err := c.options.Cluster.Kubectl(ctx, "get", kind+","+kind+"binding", "-o", "name")
		if err != nil {
			return err
		}
		names = append(names, slices.DeleteFunc(strings.Fields(found), func(name string) bool { return !strings.Contains(name, "/modeldock-gpu-") })...)
	}
	if len(names) == 0 {
		return nil
	}
	_, err := c.options.Cluster.Kubectl(ctx, append([]string{"delete"}, names...)...)
	return err
}
