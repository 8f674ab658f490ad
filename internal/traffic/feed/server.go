package feed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"modeldock.io/internal/traffic"
)

const (
	// maxWait bounds a long call; idle connections in between would be cut.
	maxWait = 30 * time.Second
	// maxCall bounds a call that carries no batch.
	maxCall = 64 << 10
	// maxEvidence bounds a batch of records in bytes.
	maxEvidence = 16 << 20
)

// ServerConfig is what the control plane's side works with.
type ServerConfig struct {
	Token string // that gateways know themselves by; see CheckToken
	// Asked hears of every question for a snapshot before it is answered; nil:
	// nobody.
	Asked func(ctx context.Context)
	// Snapshot returns the latest one; nil before there is any.
	Snapshot func() *traffic.Snapshot
	// Refresh makes Snapshot return one taken at since or later, or fails.
	Refresh func(ctx context.Context, since time.Time) error
	// Store keeps evidence; it is idempotent by request id.
	Store func(ctx context.Context, batch []traffic.Inference) error
	// Wake starts a sleeping model; it may be asked any number of times.
	Wake   func(ctx context.Context, w traffic.Wake) error
	Clock  func() time.Time
	Logger *slog.Logger
}

// Server answers gateways.
type Server struct {
	cfg ServerConfig

	mu      sync.Mutex
	of      *traffic.Snapshot // that body and tag belong to
	body    []byte
	tag     string
	changed chan struct{} // closed when a newer one may be there
}

// NewServer returns the control plane's side; Handler serves it, and Changed
// tells it of every new snapshot.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Asked == nil {
		cfg.Asked = func(context.Context) {}
	}
	return &Server{cfg: cfg, changed: make(chan struct{})}
}

// Changed ends the waiting of gateways: there is a new snapshot.
func (s *Server) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Handler answers on PathSnapshot, PathInferences and PathWake.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathSnapshot, s.authorize(s.snapshot))
	mux.HandleFunc("POST "+PathInferences, s.authorize(s.inferences))
	mux.HandleFunc("POST "+PathWake, s.authorize(s.wake))
	return mux
}

func (s *Server) authorize(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !Authorized(r, s.cfg.Token) {
			http.Error(w, "the token of the gateways is needed here", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// snapshot answers with a document that the caller does not have yet, at once
// or when there is one: If-None-Match names what it has, wait= is its patience
// in seconds, and fresh=1 asks for one taken from now on.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	came := s.cfg.Clock()
	s.cfg.Asked(r.Context())
	if r.URL.Query().Get("fresh") == "1" {
		if err := s.cfg.Refresh(r.Context(), came); err != nil {
			http.Error(w, "no newer snapshot can be made: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("wait")) // without one it is answered at once
	patience := time.NewTimer(min(time.Duration(seconds)*time.Second, maxWait))
	defer patience.Stop()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	for {
		body, tag, taken, changed, err := s.current()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("ETag", tag)
		w.Header().Set(headerTaken, strconv.FormatFloat(math.Floor(taken.Sub(came).Seconds()*1000), 'f', 0, 64))
		if tag != r.Header.Get("If-None-Match") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			w.WriteHeader(http.StatusNotModified)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// current encodes a snapshot once for all gateways.
func (s *Server) current() (body []byte, tag string, taken time.Time, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Snapshot()
	if now == nil {
		return nil, "", taken, nil, errors.New("this controller has just started and has taken no snapshot yet")
	}
	if now != s.of {
		if s.body, s.tag, err = encode(now); err != nil {
			return nil, "", taken, nil, err
		}
		s.of = now
	}
	return s.body, s.tag, now.At, s.changed, nil
}

func (s *Server) inferences(w http.ResponseWriter, r *http.Request) {
	var batch []traffic.Inference
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEvidence)).Decode(&batch); err != nil {
		http.Error(w, "read a batch of evidence: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.cfg.Store(r.Context(), batch); err != nil {
		s.cfg.Logger.Warn("a gateway's evidence is not stored; it tries again", "records", len(batch), "error", err)
		http.Error(w, "store a batch of evidence: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) wake(w http.ResponseWriter, r *http.Request) {
	var call traffic.Wake
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCall)).Decode(&call); err != nil {
		http.Error(w, "read a wake: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.cfg.Wake(r.Context(), call); err != nil {
		s.cfg.Logger.Warn("a sleeping model is not woken; its gateway asks again", "owner", call.Owner, "model", call.Model, "error", err)
		http.Error(w, "wake a model: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
