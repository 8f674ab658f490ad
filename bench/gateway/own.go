package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/limit"
	"modeldock.io/internal/traffic/route"
)

const (
	proxyName   = "ReverseProxy"
	gatewayName = "ModelDock"
)

// newProxy is the baseline: net/http's reverse proxy, tuned with kept
// connections and pooled buffers, without any rule of its own.
func newProxy(engine string) (http.Handler, error) {
	target := &url.URL{Scheme: "http", Host: engine}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		BufferPool:    &pool{},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true, IdleConnTimeout: time.Minute},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it the server closes the request's body at the answer's
		// first byte, and on one core that can be before the transport has
		// seen its end, which then cuts the stream.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}), nil
}

type pool struct{ buffers sync.Pool }

func (p *pool) Get() []byte {
	if b, ok := p.buffers.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pool) Put(b []byte) { p.buffers.Put(&b) }

const (
	tenants    = 200
	benchOwner = "team-7"
	benchKey   = "mdk_k9_the-secret-of-team-9"
)

// newGateway has everything on: 200 keys, 400 models, grants, limits of
// tenants and keys, two replicas, metrics and evidence. The caller uses a grant.
func newGateway(engine string) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	logger := slog.New(slog.DiscardHandler)
	recorder, err := gateway.NewBatchRecorder(func(context.Context, []traffic.Inference) error { return nil }, logger, registry)
	if err != nil {
		return nil, err
	}
	table := route.New(time.Now)
	for _, uid := range []string{"pod-1", "pod-2"} {
		table.Upsert(traffic.Endpoint{
			UID: uid, Owner: benchOwner, Model: "chat-0", Version: "v1", RequestID: "r", ObjectUID: "o",
			Address: engine, Upstream: "served-name",
		})
	}
	snapshot := benchSnapshot()
	return gateway.New(gateway.Config{
		Snapshot: func() *traffic.Snapshot { return snapshot },
		Table:    table, Recorder: recorder, Logger: logger, Registerer: registry,
		Limiter: limit.NewMemory(time.Now), Results: cache.NewMemory(time.Now, cache.DefaultBytes),
	})
}

func benchSnapshot() *traffic.Snapshot {
	s := &traffic.Snapshot{
		Version: 1, At: time.Now(), Keys: map[string]traffic.Key{},
		Grants: map[traffic.GrantKey]struct{}{}, Owned: map[string]map[string]struct{}{},
		Limits: map[string]traffic.Limits{},
	}
	plenty := traffic.Rates{RequestsPerMinute: 1e9, TokensPerMinute: 1e11, Concurrency: 1e5, TokensPerDay: 1e11}
	for i := range tenants {
		tenant := fmt.Sprint("team-", i)
		id := fmt.Sprint("k", i)
		s.Keys[id] = traffic.Key{ID: id, Tenant: tenant, SecretHash: sha256.Sum256([]byte("the-secret-of-" + tenant))}
		s.Owned[tenant] = map[string]struct{}{}
		s.Limits[tenant] = traffic.Limits{Together: plenty, PerKey: plenty}
		for m := range 2 {
			name := fmt.Sprint("chat-", m)
			if i != 9 {
				s.Owned[tenant][name] = struct{}{}
			}
			if i != 9 {
				s.Models = append(s.Models, traffic.Model{
					Owner: tenant, Name: name, Version: "v1", RequestID: "r", ObjectUID: "o", Weight: 100,
					WaitTimeout: time.Minute, MaxWaiting: 100,
				})
			}
		}
	}
	s.Grants[traffic.GrantKey{Owner: benchOwner, Model: "chat-0", Grantee: "team-9"}] = struct{}{}
	return s
}
