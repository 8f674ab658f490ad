package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Proxy stands between a client and the API server.
type Proxy struct {
	REST     *rest.Config // by way of the proxy
	front    *httptest.Server
	lose     atomic.Pointer[func(*http.Request) bool]
	requests atomic.Int64

	mu     sync.Mutex
	isCut  bool
	nextID int
	open   map[int]context.CancelFunc
}

// NewProxy starts a proxy for whoever would use cfg.
func NewProxy(cfg *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the proxy's transport: %w", err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	p := &Proxy{open: map[int]context.CancelFunc{}}
	reverse := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(res *http.Response) error {
			if lose := p.lose.Load(); lose != nil && (*lose)(res.Request) {
				<-res.Request.Context().Done() // the client waits until it gives up
				return res.Request.Context().Err()
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := p.enter(r.Context())
		defer done()
		if ctx.Err() != nil {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		p.requests.Add(1)
		reverse.ServeHTTP(w, r.WithContext(ctx))
	}))
	p.REST = &rest.Config{Host: p.front.URL}
	return p, nil
}

// enter registers a request so that a cut ends it.
func (p *Proxy) enter(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.nextID
	p.nextID++
	p.open[id] = cancel
	if p.isCut {
		cancel()
	}
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, id)
		cancel()
	}
}

// Cut ends everything under way, watches too, and lets nothing through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for _, cancel := range p.open {
		cancel()
	}
}

// Mend lets requests through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}

// Lose drops the answers to requests that which picks; the API server has
// carried them out. nil: none.
func (p *Proxy) Lose(which func(*http.Request) bool) {
	if which == nil {
		p.lose.Store(nil)
		return
	}
	p.lose.Store(&which)
}

// Requests is how many were let through.
func (p *Proxy) Requests() int64 { return p.requests.Load() }

// Close ends the proxy.
func (p *Proxy) Close() {
	p.Cut()
	p.front.Close()
}
