package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/metricsapi"
)

// metricsAPIName is the Service of deploy/examples/metrics-api.yaml.
const metricsAPIName = "modeldock-metrics-api"

// metricsAPI prepares the server that a cluster's autoscalers read through the
// API server; nil where none was asked for.
func (c *controller) metricsAPI(listener net.Listener) (*http.Server, error) {
	if listener == nil {
		return nil, nil
	}
	cfg, err := c.opts.Cluster.rest()
	if err != nil {
		return nil, err
	}
	client, err := metricsapi.NewClient(cfg, "modeldock-metrics-api")
	if err != nil {
		return nil, err
	}
	security := c.tls.Clone()
	if security == nil {
		service := metricsAPIName + "." + c.opts.Cluster.System + ".svc"
		own, err := metricsapi.SelfSigned(c.clock(), service, metricsAPIName, "localhost")
		if err != nil {
			return nil, err
		}
		security = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	}
	front := &metricsapi.FrontProxy{Reader: client, Clock: c.clock}
	api := metricsapi.New(metricsapi.Config{
		Reader: client, Signals: c.signals, Authenticate: front.Authenticate, Authorize: metricsapi.Authorizer(client), Clock: c.clock, Logger: c.log,
	})
	server := sideServer(api.Handler())
	server.TLSConfig, server.ErrorLog = metricsapi.ServerTLS(security), complaintsTo(c.log, c.clock)
	return server, nil
}

// signals are what is known of a request's load.
func (c *controller) signals(ctx context.Context, tenant, id string) (elastic.Signals, error) {
	in, err := c.scaler.Signals(ctx, budget.Ref{Tenant: tenant, ID: id})
	if errors.Is(err, budget.ErrNotFound) {
		return in, fmt.Errorf("%w: %w", metricsapi.ErrUnknown, err)
	}
	return in, err
}
