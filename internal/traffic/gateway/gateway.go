// Package gateway is the traffic account's OpenAI-compatible front: it knows
// the caller by the key alone, finds the model's version and a ready replica,
// relays the answer as it is made, and leaves evidence of what really reached
// the caller.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"modeldock.io/internal/outage"
	"modeldock.io/internal/strictpath"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/gateway/wire"
	"modeldock.io/internal/traffic/limit"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/upstream"
	"modeldock.io/internal/traffic/waitroom"
)

// DefaultMaxBody is the largest request body that is read: 32 MiB.
const DefaultMaxBody = 32 << 20

// Config is what a gateway works with. Snapshot, Table and Recorder are
// required.
type Config struct {
	// Snapshot returns the last known good snapshot without blocking; nil
	// means that none has arrived yet.
	Snapshot func() *traffic.Snapshot
	// Refresh, if given, is asked before a caller is refused: it makes
	// Snapshot return one taken at since or later, or fails. What was created
	// a moment ago is then never unknown. It bounds its own rate.
	Refresh  func(ctx context.Context, since time.Time) error
	Table    *route.Table
	Recorder traffic.Recorder
	Clock    func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	MaxBody  int64            // bytes; default DefaultMaxBody
	// BodyMemory bounds the bodies in memory, in bytes; default
	// DefaultBodyMemory. It must be twice MaxBody, or a body of that size
	// never finds room.
	BodyMemory int64
	Pace       Pace // of bodies that come
	// Principal may know a caller who brings no key of ours, for example by
	// the console's session. It is asked only then, and before the body is
	// read. Its errors are ErrNobody and *Refusal; others are the gateway's
	// own failure.
	Principal func(*http.Request) (traffic.Key, error)
	// Limiter counts against the tenants' limits; nil limits nobody.
	Limiter limit.Limiter
	// Results keeps answers of models whose cache is on; nil keeps none.
	Results cache.Store
	// Tracer makes a span of each call of a model; nil makes none.
	Tracer trace.Tracer
	// AccessLog gets one line for each request; nil for none.
	AccessLog *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// Wake, if given, is told once that a version without a ready replica has
	// callers, and again while that lasts, because it may be lost. It must not
	// block.
	Wake func(traffic.Wake)
	// MaxPriority is the class of a tenant's callers, which they may lower;
	// nil means waitroom.Default for everybody.
	MaxPriority func(tenant string) waitroom.Class
	// Waiting bounds what waits for all models together; zero values get
	// defaults.
	Waiting waitroom.Bounds
	// Verify judges new connections to endpoints that have a UserID; nil
	// believes whoever answers.
	Verify upstream.Verify
	// ProgressEvery is the pause between two comments for a caller who asked
	// for progress; default 5 s.
	ProgressEvery time.Duration
}

// Gateway serves /v1. It is an http.Handler for any number of requests at
// once.
type Gateway struct {
	cfg        Config
	index      atomic.Pointer[index]
	room       *waitroom.Room[queueKey, *route.Demand, *route.Lease]
	classed    classQueues
	starts     *waitroom.Starts[route.Key]
	wakes      wakes
	activities activities
	retries    route.RetryBudget
	engines    *upstream.Pool
	bodies     bodies
	rejections rejections
	often      *outage.Repeats // tells of what callers and engines can repeat at will
	buffers    buffers
	streams    sync.Pool // of *streamRelay
	floods     sync.Pool // of *[wideSpace]byte
	metrics    *metrics
	unwatch    func()
}

// New checks the configuration and returns a gateway. Close it after its
// server has been shut down.
func New(cfg Config) (*Gateway, error) {
	if cfg.Snapshot == nil || cfg.Table == nil || cfg.Recorder == nil {
		return nil, errors.New("build the gateway: Snapshot, Table and Recorder must be given")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.BodyMemory <= 0 {
		cfg.BodyMemory = DefaultBodyMemory
	}
	if cfg.Pace.Grace <= 0 {
		cfg.Pace.Grace = 10 * time.Second
	}
	if cfg.Pace.Rate <= 0 {
		cfg.Pace.Rate = 16 << 10
	}
	g := &Gateway{cfg: cfg, often: outage.NewRepeats(cfg.Logger, cfg.Clock), starts: waitroom.NewStarts[route.Key](), engines: upstream.New(cfg.Clock, cfg.Verify)}
	g.bodies.room.most = cfg.BodyMemory
	g.room = g.newRoom()
	var err error
	if g.metrics, err = newMetrics(g); err != nil {
		return nil, err
	}
	g.unwatch = cfg.Table.OnChange(g.endpointsChanged)
	return g, nil
}

// Close lets go of the endpoint table and of idle connections.
func (g *Gateway) Close() {
	g.unwatch()
	g.engines.Close()
}

// operation is one path that takes a request for a model.
type operation struct {
	path     string
	name     string // in traces
	streams  bool   // it can answer with a stream of completions
	messages bool   // it needs the member "messages"
	usage    bool   // a stream tells its usage only if asked to
	form     bool   // its body is a multipart form
	// asks reads how long answers may be and how many are wanted, by the
	// members that the operation defines; nil: it has no such members.
	asks func(*wire.Request) (each, count int64)
}

// operationFor is the explicit list: what is not here is not served.
func operationFor(path string) (operation, bool) {
	switch path {
	case "/v1/chat/completions":
		return operation{path: path, name: "chat", streams: true, messages: true, usage: true, asks: chatAnswers}, true
	case "/v1/completions":
		return operation{path: path, name: "text_completion", streams: true, usage: true, asks: textAnswers}, true
	case "/v1/responses":
		return operation{path: path, name: "chat", streams: true, asks: responseAnswers}, true
	case "/v1/audio/transcriptions":
		return operation{path: path, name: "transcription", streams: true, form: true}, true
	case "/v1/embeddings":
		return operation{path: path, name: "embeddings"}, true
	case "/v1/rerank":
		return operation{path: path, name: "rerank"}, true
	}
	return operation{}, false
}

// ServeHTTP finds out what is asked for; see infer for how a request for a
// model goes.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer x.finish()
	op, inference := operationFor(r.URL.Path)
	id, oneModel, err := modelOf(r.URL)
	switch {
	case err != nil:
		err = badRequest(err)
	case inference:
		if err = allow(r, http.MethodPost); err == nil {
			x.inference = true
			err = g.infer(x, op)
		}
	case r.URL.Path == "/v1/models":
		if err = allow(r, http.MethodGet, http.MethodHead); err == nil {
			err = g.listModels(x)
		}
	case oneModel && id != "":
		if err = allow(r, http.MethodGet, http.MethodHead); err == nil {
			err = g.showModel(x, id)
		}
	default:
		err = unknownPath(r.URL.Path)
	}
	if err != nil {
		x.fail(err)
	}
}

// modelOf is the id in /v1/models/{id}. Clients encode the slash in "owner/name";
// any other path is read by us as it was by whoever let it pass.
func modelOf(u *url.URL) (id string, oneModel bool, err error) {
	if id, oneModel = strings.CutPrefix(u.EscapedPath(), "/v1/models/"); !oneModel {
		return "", false, strictpath.Check(u)
	}
	id, err = url.PathUnescape(id)
	return id, true, err
}

func allow(r *http.Request, methods ...string) error {
	for _, m := range methods {
		if r.Method == m {
			return nil
		}
	}
	return wrongMethod(r.Method, r.URL.Path, strings.Join(methods, ", "))
}
