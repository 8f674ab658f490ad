package cluster

import (
	"context"
	"fmt"
	"strconv"
)

// AddGuest adds a program of a test's own to the cluster's components and
// starts it. It gets a free port, which command turns into its arguments;
// GET /readyz there, by HTTPS, tells when it is ready. It ends with the cluster.
func (c *Cluster) AddGuest(ctx context.Context, name string, command func(port int) []string) (*Component, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, fmt.Errorf("add %s: %w", name, err)
	}
	guest := c.add(name, c.host, command(ports[0]), nil, c.answers("https://127.0.0.1:"+strconv.Itoa(ports[0])+"/readyz", nil))
	guest.guest = true
	return guest, guest.Start(ctx)
}
