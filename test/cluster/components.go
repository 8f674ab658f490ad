package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// add makes a component of the given command.
func (c *Cluster) add(name string, by *launcher, command, env []string, ready func(context.Context) error) *Component {
	if env == nil {
		env = os.Environ()
	}
	component := &Component{
		Name: name, LogFile: filepath.Join(c.Dir, "logs", strings.ReplaceAll(name, "/", "-")+".log"),
		command: command, env: env, launcher: by, ready: ready, started: c.noteStart,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.components[name] = component
	return component
}

// noteStart writes a component's process down.
func (c *Cluster) noteStart(component *Component) error {
	pid := component.PID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Components[component.Name] = processOf(pid)
	return c.registry.write(c.record)
}

// Component returns one of the cluster's programs, by the names of control.go
// or as NODE/kubelet and NODE/containerd.
func (c *Cluster) Component(name string) (*Component, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if component := c.components[name]; component != nil {
		return component, nil
	}
	return nil, fmt.Errorf("the cluster has no component %s; it has %s", name, strings.Join(slices.Sorted(maps.Keys(c.components)), ", "))
}

// StopAPIServer ends the API server as an upgrade would, with SIGTERM.
func (c *Cluster) StopAPIServer() error {
	component, err := c.Component(APIServer)
	if err != nil {
		return err
	}
	return component.Stop()
}

// StartAPIServer starts the API server again, at the same address, and waits
// until it is ready. Watches of other components take some seconds more.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	component, err := c.Component(APIServer)
	if err != nil {
		return err
	}
	return component.Start(ctx)
}

// APIServerAddress is host and port of the API server, as this machine and its
// Pods reach it. There is no kube-proxy: a Pod that wants the API server is
// given these as KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
func (c *Cluster) APIServerAddress() (host string, port int) { return c.at.apiHost, c.at.api }

// answers is a readiness check: the URL answers 200.
func (c *Cluster) answers(url string, client *http.Client) func(context.Context) error {
	if client == nil {
		client = unverified()
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // only the status counts
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}
