package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// maxBody bounds a call; a model's whole specification is far smaller.
const maxBody = 4 << 20

// Server serves a target to the other processes of the machine.
type Server struct {
	target Served

	mu        sync.Mutex
	listeners map[chan budget.Ref]bool
	closed    chan struct{}
	once      sync.Once
}

// NewServer returns a server of target; Handler serves it.
func NewServer(target Served) *Server {
	return &Server{target: target, listeners: map[chan budget.Ref]bool{}, closed: make(chan struct{})}
}

// Changed hints to every client that ref's status changed. It never blocks:
// a client that does not keep up is told to look at everything again.
func (s *Server) Changed(ref budget.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.listeners {
		select {
		case ch <- ref:
		default:
			delete(s.listeners, ch)
			close(ch)
		}
	}
}

// Close ends the clients' streams, so that an HTTP server can shut down.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// Listen opens the socket in dir, in the place of one that an earlier process
// left. The caller holds the directory's lock.
func Listen(ctx context.Context, dir string) (net.Listener, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the target's socket: %w", err)
	}
	defer func() { _ = folder.Close() }()
	path := reachable(folder)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the target's old socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the target's socket in %s: %w", dir, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the path is no longer ours to follow then
	return l, nil
}

// Handler answers the clients.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathApply, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(d delivery.Desired) (budget.Object, error) { return s.target.Apply(r.Context(), d) })
	})
	mux.HandleFunc("POST "+pathDelete, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(d deletion) (struct{}, error) { return struct{}{}, s.target.Delete(r.Context(), d.Ref, d.UID) })
	})
	mux.HandleFunc("POST "+pathObserve, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(ref budget.Ref) (delivery.Status, error) { return s.target.Observe(r.Context(), ref) })
	})
	mux.HandleFunc("POST "+pathList, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(struct{}) ([]delivery.Status, error) { return s.target.List(r.Context()) })
	})
	mux.HandleFunc("GET "+pathLogs, s.logs)
	mux.HandleFunc("GET "+pathChanges, s.changes)
	return mux
}

// answer reads a call, makes it and writes what came of it.
func answer[In, Out any](w http.ResponseWriter, r *http.Request, call func(In) (Out, error)) {
	var in In
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		Fail(w, fmt.Errorf("read the call %s: %w", r.URL.Path, err))
		return
	}
	out, err := call(in)
	if err != nil {
		Fail(w, err)
		return
	}
	Answer(w, out)
}

// Fail answers a client with an error, also for calls beside the target's own.
func Fail(w http.ResponseWriter, err error) {
	status, f := describe(err)
	write(w, status, f)
}

// Answer answers a client with v.
func Answer(w http.ResponseWriter, v any) { write(w, http.StatusOK, v) }

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	tail, err := strconv.Atoi(q.Get("tail"))
	if err != nil {
		Fail(w, fmt.Errorf("read the call %s: tail: %w", r.URL.Path, err))
		return
	}
	out, err := s.target.Logs(r.Context(), budget.Ref{Tenant: q.Get("tenant"), ID: q.Get("id")}, q.Get("replica"), tail, q.Get("follow") == "true")
	if err != nil {
		Fail(w, err)
		return
	}
	defer func() { _ = out.Close() }()
	rc := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil || rc.Flush() != nil || err != nil {
			return
		}
	}
}

// changes streams one line per hint; an empty one asks to look at everything.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	ch := make(chan budget.Ref, 1024)
	s.mu.Lock()
	s.listeners[ch] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, ch)
	}()
	rc := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	for ref := (budget.Ref{}); ; {
		if lines.Encode(ref) != nil || rc.Flush() != nil {
			return
		}
		var open bool
		select {
		case ref, open = <-ch:
			if !open {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
}
