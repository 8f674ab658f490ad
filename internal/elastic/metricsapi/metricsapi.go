// Package metricsapi tells a cluster's autoscalers how busy models are
// (delivery account): it serves custom.metrics.k8s.io/v1beta2 behind the API
// server's aggregation, for Pods and for ModelServices. What is not known has
// no value, and is never zero.
package metricsapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/elastic"
)

// The API's names.
const (
	Group   = "custom.metrics.k8s.io"
	Version = "v1beta2"
	path    = "/apis/" + Group + "/" + Version

	resourcePods   = "pods"
	resourceModels = "modelservices." + v1alpha1.GroupName
)

// names are the metrics that are served.
func names() []string {
	return []string{elastic.MetricQueue, elastic.MetricMemory, elastic.MetricKVCache, elastic.MetricLatency}
}

// ErrUnknown says that the load of a model is not known now.
var ErrUnknown = errors.New("its load is not known")

// Config is what the API works with. All but Clock and Logger are required.
type Config struct {
	// Reader reads ModelServices and Pods.
	Reader client.Reader
	// Signals are what is known of one tenant's request; ErrUnknown if that is
	// nothing at all.
	Signals func(ctx context.Context, tenant, id string) (elastic.Signals, error)
	// Authenticate says who asks, Authorize whether they may.
	Authenticate func(*http.Request) (User, error)
	Authorize    func(ctx context.Context, u User, a Access) error
	Clock        func() time.Time
	Logger       *slog.Logger
}

// User is who asked the API server.
type User struct {
	Name   string
	Groups []string
	Extra  map[string][]string
}

// Access is what was asked for.
type Access struct {
	Namespace, Resource, Name, Metric string
}

// Server answers.
type Server struct{ cfg Config }

// New returns a server.
func New(cfg Config) *Server {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Server{cfg}
}

// Handler serves the API. Discovery is for everybody whom the API server lets
// through; the rest is authorised for each call.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+Group, s.known(func(w http.ResponseWriter, _ *http.Request, _ User) { answer(w, http.StatusOK, group()) }))
	mux.HandleFunc("GET "+path, s.known(func(w http.ResponseWriter, _ *http.Request, _ User) { answer(w, http.StatusOK, resources()) }))
	mux.HandleFunc("GET "+path+"/namespaces/{namespace}/{resource}/{name}/{metric}", s.known(s.metric))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	return mux
}

// known lets only those in whom the API server vouches for.
func (s *Server) known(next func(http.ResponseWriter, *http.Request, User)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, err := s.cfg.Authenticate(r)
		if err != nil {
			s.cfg.Logger.Debug("a caller of the metrics API is not the API server", "from", r.RemoteAddr, "error", err)
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "this API is served through the API server: "+err.Error())
			return
		}
		next(w, r, u)
	}
}

func (s *Server) metric(w http.ResponseWriter, r *http.Request, u User) {
	a := Access{r.PathValue("namespace"), r.PathValue("resource"), r.PathValue("name"), r.PathValue("metric")}
	if err := s.cfg.Authorize(r.Context(), u, a); err != nil {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
		return
	}
	list, err := s.values(r.Context(), a, r.URL.Query())
	var bad *refusal
	switch {
	case errors.As(err, &bad):
		refuse(w, bad.code, bad.reason, bad.Error())
	case errors.Is(err, ErrUnknown):
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	case err != nil:
		s.cfg.Logger.Warn("a metric was not answered", "namespace", a.Namespace, "resource", a.Resource, "name", a.Name, "metric", a.Metric, "error", err)
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	default:
		answer(w, http.StatusOK, list)
	}
}
