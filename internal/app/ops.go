package app

import (
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modeldock.io/internal/traffic/gateway"
)

// opsMux serves what every process tells its operators: health, metrics, and
// profiles to callers on this machine. Who may reach the listener is decided
// by its address; engines of tenants that share it are told no more than /healthz.
func opsMux(healthz, readyz http.HandlerFunc, metrics prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", healthz)
	mux.Handle("/readyz", notForEngines(readyz))
	mux.Handle("/metrics", notForEngines(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})))
	for path, profile := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle(path, loopbackOnly(profile))
	}
	return mux
}

// sideServer bounds what a caller of a listener that is not for tenants can
// hold: operations, gateways of a controller, processes of the same machine.
func sideServer(h http.Handler) *http.Server {
	return &http.Server{Handler: gateway.BoundBodies(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
}
