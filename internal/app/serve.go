package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/console"
	"modeldock.io/internal/strictpath"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// serve starts the loops and the listener and, when ctx ends, stops them in
// the reverse order: new requests first, running streams, models, ledger.
func (p *platform) serve(ctx context.Context, listener, ops net.Listener, out io.Writer, started func(Running)) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	if err := p.machine.Start(work); err != nil {
		return errors.Join(fmt.Errorf("start the local target: %w", err), p.ledger.Close())
	}
	stopSharing, err := p.share(ctx)
	if err != nil {
		return errors.Join(err, p.machine.Close(ctx), p.ledger.Close())
	}
	defer stopSharing()
	p.startLoops(work)
	server := gateway.NewServer(p.handler())
	server.ErrorLog, server.Connections = complaintsTo(p.log, p.clock), p.callers
	failed := make(chan error, 2)
	go func() { failed <- serveHTTP(server, listener, p.tls) }()
	watched := sideServer(opsMux(healthz, p.readyz, p.registry))
	defer func() { _ = watched.Close() }()
	if ops != nil {
		go func() { failed <- watched.Serve(ops) }()
	}
	p.health.ready(true)
	running := Running{URL: urlOf(listener, p.tls), KeysFile: p.dir.file(keysFile), Demo: !p.opts.NoDemo}
	if ops != nil {
		running.Ops = "http://" + reachable(ops.Addr())
	}
	p.banner(out, running)
	started(running)
	select {
	case <-ctx.Done():
		p.log.Info("stopping: no new requests; running streams may finish", "grace", p.opts.StopGrace)
	case err = <-failed:
	}
	return errors.Join(err, p.shutdown(server, stopWork))
}

func (p *platform) shutdown(server *gateway.Server, stopWork func()) error {
	p.health.ready(false)
	p.hub.Close()
	p.gateway.Drain()
	stopServing(server, p.opts.StopGrace, p.log)
	stopWork()
	p.loops.Wait()
	p.gateway.Close()
	last, cancelLast := context.WithTimeout(context.Background(), p.opts.StopGrace)
	defer cancelLast()
	defer func() {
		if p.hold != nil {
			_ = p.hold.Release() // it ends with the connection anyway
		}
	}()
	err := errors.Join(p.counts.close(), p.api.SumUpSignIns(last, true), p.recorder.FlushAndClose(last), p.tells.spans.Close(last), p.machine.Close(last), p.ledger.Close())
	p.log.Info("stopped")
	return err
}

// stopServing is the same in every process: no new requests, those that run may
// go on for grace, and who is still there then is told before the end.
func stopServing(server *gateway.Server, grace time.Duration, log *slog.Logger) {
	if !server.Stop(grace) {
		log.Warn("requests that did not finish in time are cut", "grace", grace)
	}
}

// reachable is an address to open in a browser on this machine.
func reachable(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// handler is the one listener's map: console, gateway, health, management API.
func (p *platform) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/console/", gateway.WithoutBody(console.Handler()))
	mux.Handle("/v1/", p.gateway)
	mux.Handle("/v1", p.gateway)
	mux.Handle("/healthz", gateway.WithoutBody(http.HandlerFunc(healthz)))
	mux.Handle("/readyz", gateway.WithoutBody(http.HandlerFunc(p.readyzForAll)))
	p.metricsOn(mux, p.registry, p.opts.OpsListen)
	mux.Handle("/", p.api.Handler())
	return onePathMap(mux, p.api.Handler(), p.gateway)
}

// onePathMap keeps the mux from answering in HTML or not at all: it would
// redirect an unclean path, and refuse "*" without a word. inference is nil where there is no gateway.
func onePathMap(mux, management, inference http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/" || r.URL.Path == "/console":
			gateway.WithoutBody(http.HandlerFunc(toConsole)).ServeHTTP(w, r)
		case inference != nil && (strings.HasPrefix(r.URL.Path, "/v1/") || r.RequestURI == "*"):
			inference.ServeHTTP(w, r)
		case !strings.HasPrefix(r.URL.EscapedPath(), "/v1/") && strictpath.Check(r.URL) != nil:
			management.ServeHTTP(w, r) // says what is wrong with it; a gateway does so below /v1
		case r.RequestURI == "*":
			notHere("there is nothing at \"*\"; name a path").ServeHTTP(w, r)
		case !clean(r.URL.Path):
			management.ServeHTTP(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func toConsole(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		answerJSON(w, r, http.StatusMethodNotAllowed, nil)
		return
	}
	http.Redirect(w, r, console.Prefix, http.StatusFound)
}

// clean reports whether the mux takes the path as it is.
func clean(p string) bool {
	return p == path.Clean(p) || p == path.Clean(p)+"/"
}

func healthz(w http.ResponseWriter, r *http.Request) {
	answerJSON(w, r, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz is for operators: it tells in words what is wrong.
func (c *control) readyz(w http.ResponseWriter, r *http.Request) {
	ready, reasons := c.health.verdict(true)
	answerReady(w, r, ready, reasons)
}

// readyzForAll keeps the words, which name tenants and figures, for people of
// this machine and admins.
func (c *control) readyzForAll(w http.ResponseWriter, r *http.Request) {
	ready, reasons := c.health.verdict(nearby(r) || c.isAdmin(r))
	answerReady(w, r, ready, reasons)
}

// isAdmin does not ask the ledger about callers without a credential.
func (c *control) isAdmin(r *http.Request) bool {
	if r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == "" {
		return false
	}
	who, err := c.api.Identify(r)
	return err == nil && who.Role == budget.RoleAdmin
}

func answerReady(w http.ResponseWriter, r *http.Request, ready bool, reasons []string) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	answerJSON(w, r, status, map[string]any{"ready": ready, "reasons": reasons})
}

// metricsOn puts metrics on a main listener, unless there is one for operations.
func (c *control) metricsOn(mux *http.ServeMux, metrics prometheus.Gatherer, ops string) {
	if ops != "" {
		mux.Handle("/metrics", notHere("metrics are on --ops-listen"))
		return
	}
	mux.Handle("/metrics", gateway.WithoutBody(loopbackOnly(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))))
}

func answerJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		status = http.StatusMethodNotAllowed
		v = openapi.Error{Error: openapi.ErrorBody{Code: "method_not_allowed", Message: r.Method + " is not allowed on " + r.URL.Path}}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// consolePrincipal lets a signed-in console call models by its session, and
// tells a caller whose session does not suffice what is missing.
func (p *platform) consolePrincipal(r *http.Request) (traffic.Key, error) {
	if _, err := r.Cookie(api.SessionCookie); err != nil || r.Header.Get("Authorization") != "" {
		return traffic.Key{}, gateway.ErrNobody
	}
	who, err := p.api.Identify(r)
	if status, message, ok := api.Refused(err); ok {
		return traffic.Key{}, &gateway.Refusal{Status: status, Code: "session_refused", Message: message}
	}
	if err != nil {
		if r.Context().Err() == nil { // the caller waits
			p.unchecked.Failed(err)
		}
		return traffic.Key{}, &gateway.Refusal{
			Status: http.StatusServiceUnavailable, Code: "session_unknown",
			Message: "the ledger cannot say right now whose session this is; try again, or call with an API key, which needs no ledger",
		}
	}
	p.unchecked.Works()
	key, ok := p.directory.snapshot().Keys[who.KeyID]
	if !ok {
		return traffic.Key{}, &gateway.Refusal{
			Status: http.StatusUnauthorized, Code: "session_refused",
			Message: "the key behind this session is not known to the gateway yet, or was revoked; try again, or sign in with another",
		}
	}
	return key, nil
}
