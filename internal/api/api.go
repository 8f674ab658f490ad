// Package api is the management API (Gin): it turns HTTP into calls on the
// three accounts and their answers into the shapes of api/openapi.yaml. It
// decides nothing itself beyond who may ask.
package api

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/strictpath"
	"modeldock.io/internal/traffic"
)

// MaxBody bounds every request body but an import's and a trace's.
const MaxBody = 64 << 10

// Target is what the API shows of delivery.
type Target interface {
	Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error)
	// Logs returns the engine's output; with follow it ends with ctx.
	Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error)
}

// Fleet shows the nodes with every allocation named.
type Fleet interface {
	Nodes(ctx context.Context) ([]openapi.Node, error)
}

// Load is what the API shows of traffic.
type Load interface {
	// Endpoints returns what gateways see, and an error where one could not be asked.
	Endpoints(ref budget.Ref) ([]traffic.Endpoint, error)
	InFlight(endpointUID string) int
	Queue(ref budget.Ref) int
}

// Scaling explains a model's number of replicas, and what pools keep ready. Its
// errors are the ledger's and the target's.
type Scaling interface {
	Explain(ctx context.Context, ref budget.Ref) (scaler.Report, error)
	WarmPools(ctx context.Context) ([]scaler.WarmReport, error)
}

// Stepper runs one round of a loop that stands still under --manual.
type Stepper interface {
	Step(ctx context.Context, what string, count int, crashBefore string) ([]openapi.StepDone, error)
}

// Config is everything the API needs; Stepper is nil unless --manual.
type Config struct {
	Ledger   budget.Ledger
	Evidence evidence.Store
	Target   Target
	Fleet    Fleet
	Load     Load
	Scaling  Scaling
	Stepper  Stepper
	Restorer Restorer
	// SpoolDir keeps the body of an import while it is judged; empty: the
	// system's folder for temporary files.
	SpoolDir    string
	Diagnostics func(ctx context.Context) []openapi.DiagnosticPart
	// ArgsOutside names a model's arguments that its engine preset does not
	// allow by itself, nor by the names in also: see engine.ArgsOutsidePreset.
	ArgsOutside func(m modelspec.Model, also map[string]bool) []string
	// Recent finds an inference record that is not stored yet; nil where no
	// gateway runs in this process.
	Recent func(requestID string) (traffic.Inference, bool)
	// Recorded returns when the records of a request's calls that are over can be
	// read, or soon; nil where no gateway runs in this process.
	Recorded func(ctx context.Context, ref budget.Ref)
	// CheckSource refuses a source that the model's engine can never be given.
	CheckSource func(m modelspec.Model) error
	// NoSleep says why no engine stays loaded in host memory here; empty: those
	// that can do.
	NoSleep string
	// NoAutoscaler says why no autoscaler of Kubernetes scales models here; empty:
	// one may.
	NoAutoscaler string
	// Known tells the server whose answer to a request is, as soon as that is
	// known; nil: it does not ask.
	Known func(ctx context.Context, whose string)
	// OnLoopback tells that only this machine can reach the listener.
	OnLoopback bool
	// BodyTime is how long a body may take to arrive; zero: a minute.
	BodyTime time.Duration
	// Bounds are the most rows of one tenant; zero: the defaults.
	Bounds budget.Bounds
	Hub    *Hub
	Clock  func() time.Time
	Logger *slog.Logger
}

// Server answers the management API.
type Server struct {
	Config
	log       *slog.Logger
	collector evidence.Collector
	engine    *gin.Engine
	stored    *storedRows
	turns     *turns
	following *places       // held by each log that is followed
	exporting chan struct{} // held by the one export under way
	replaying *places       // held by each simulation under way
	askAgain  time.Duration // see identifyAgain
	signIns   *signIns
	// Refusals because of an outage are counted, not told one by one.
	away   *outage.Log // of the ledger
	unread *outage.Log // of what runs
}

// New builds the server; Handler serves it.
func New(cfg Config) *Server {
	s := &Server{Config: cfg, log: cfg.Logger, exporting: make(chan struct{}, 1), replaying: newPlaces(1, maxReplays)}
	s.BodyTime, s.askAgain = cmp.Or(s.BodyTime, bodyTime), identifyAgain
	s.turns, s.following = newTurns(), newPlaces(maxPerKey, maxSubscribers)
	s.signIns = newSignIns(cfg.Clock)
	s.away, s.unread = outage.New(s.log, cfg.Clock, "ledger unavailable"), outage.New(s.log, cfg.Clock, "what runs cannot be read")
	s.stored = newStoredRows(cfg.Bounds, cfg.Ledger, cfg.Clock)
	s.collector = evidence.Collector{Ledger: cfg.Ledger, Target: cfg.Target, Store: cfg.Evidence, Endpoints: cfg.Load.Endpoints, Clock: cfg.Clock, Halted: s.standstill}
	s.engine = s.routes()
	return s
}

// Handler serves every path of the management API and answers all others 404.
func (s *Server) Handler() http.Handler { return s.engine }

func (s *Server) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.Use(s.recoverPanics, keptNowhere, s.limitBody, s.readOneWay, fromOutside, endTurn)
	e.NoRoute(func(c *gin.Context) { s.fail(c, notFound("no such path: %s", c.Request.URL.Path)) })
	e.NoMethod(func(c *gin.Context) {
		s.fail(c, &problem{http.StatusMethodNotAllowed, codeMethod, c.Request.Method + " is not allowed on " + c.Request.URL.Path + "; see the Allow header", ""})
	})
	openapi.RegisterHandlersWithOptions(e, handlers{s}, openapi.GinServerOptions{
		Middlewares: []openapi.MiddlewareFunc{s.authenticate, s.takeTurn},
		// It comes before the middlewares: whether a stranger's parameters can be
		// read is nobody's business.
		ErrorHandler: func(c *gin.Context, err error, status int) {
			if s.authenticate(c); !c.IsAborted() {
				s.fail(c, badParameter(c, status, err))
			}
		},
	})
	return e
}

// keptNowhere keeps answers, some of which hold secrets, out of caches, and
// browsers from taking them for something else.
func keptNowhere(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	c.Header("X-Content-Type-Options", "nosniff")
}

// readOneWay refuses a path that a proxy in front may have let pass as another
// one than is served here: routes are found by what is decoded.
func (s *Server) readOneWay(c *gin.Context) {
	if err := strictpath.Check(c.Request.URL); err != nil {
		s.fail(c, invalid("", "%s", err))
	}
}

// limitBody refuses a body that says it is too large before reading it, and
// cuts one that only turns out to be.
func (s *Server) limitBody(c *gin.Context) {
	limit := int64(MaxBody)
	switch c.Request.URL.Path {
	case importPath:
		limit = MaxImport
	case simulatePath:
		limit = maxTrace
	}
	body := s.inTime(c, http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	if c.Request.ContentLength > limit { // net/http lets its sender read why, if it finds its own body
		hangUp(c)
		s.fail(c, &http.MaxBytesError{Limit: limit})
		return
	}
	c.Request.Body = body
	c.Next()
}

// hangUp ends a connection of HTTP/1 with the answer: the rest of the body is
// still to come. One of HTTP/2 goes on for others' requests.
func hangUp(c *gin.Context) {
	if c.Request.ProtoMajor == 1 {
		c.Header("Connection", "close")
	}
}

// handlers implements the generated interface; a type of its own keeps
// Server's exported methods to what callers need. What they call gets the
// request's context, never the gin.Context itself: that one is used again for
// the next request while a database driver may still watch it.
type handlers struct{ *Server }

func stack() string { return string(debug.Stack()) }
