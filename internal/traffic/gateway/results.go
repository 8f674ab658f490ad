package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/gateway/wire"
)

// The values of the header X-Modeldock-Cache.
const (
	cacheHit    = "hit"
	cacheMiss   = "miss"
	cacheBypass = "bypass"
)

// filling collects an answer that may be kept.
type filling struct {
	key  cache.Key
	ttl  time.Duration
	body []byte
}

// fromCache answers with a kept answer to the very same request, if there is
// one. Otherwise it prepares to keep the one that comes.
func (g *Gateway) fromCache(x *exchange, key *traffic.Key, m *traffic.Model, op operation, asked *wire.Request, body []byte) (answered bool, err error) {
	if g.cfg.Results == nil || m.CacheTTL <= 0 {
		return false, nil
	}
	header := x.w.Header()
	read, store := cacheControl(x.r.Header)
	if !store || !asked.Repeatable || m.ObjectUID == "" {
		g.cached(header, cacheBypass)
		return false, nil
	}
	canonical, err := wire.Canonical(body, func(name string) bool {
		return name == "model" || name == "stream" || name == "stream_options"
	})
	if err != nil {
		g.cached(header, cacheBypass)
		return false, nil //nolint:nilerr // two readers could take it for two requests: the engine judges it
	}
	stream := op.streams && asked.Stream
	k := cache.Question{
		Tenant: key.Tenant, Owner: m.Owner, Model: m.Name, Version: m.Version, ObjectUID: m.ObjectUID,
		Path: op.path, Stream: stream, Usage: asked.AsksUsage, Body: canonical,
	}.Key()
	if read {
		if a, ok := g.cfg.Results.Get(x.r.Context(), k); ok {
			g.cached(header, cacheHit)
			return true, x.replay(a, stream)
		}
	}
	x.fill = &filling{key: k, ttl: m.CacheTTL}
	if read {
		g.cached(header, cacheMiss)
	} else {
		g.cached(header, cacheBypass)
	}
	return false, nil
}

func (g *Gateway) cached(h http.Header, result string) {
	h["X-Modeldock-Cache"] = []string{result}
	g.metrics.results.WithLabelValues(result).Inc()
}

// cacheControl says what the caller allows: to be answered from the cache, and
// to have the answer kept there.
func cacheControl(h http.Header) (read, store bool) {
	read, store = true, true
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			switch strings.ToLower(strings.TrimSpace(directive)) {
			case "no-store":
				read, store = false, false
			case "no-cache", "max-age=0":
				read = false
			}
		}
	}
	return read, store
}

// replay sends a kept answer as an engine's would have come.
func (x *exchange) replay(a cache.Answer, stream bool) error {
	x.unused()
	header := x.w.Header()
	header["Content-Type"] = []string{a.ContentType}
	header["X-Modeldock-Version"] = []string{x.rec.Version}
	header["X-Content-Type-Options"] = []string{"nosniff"}
	header["Content-Security-Policy"] = []string{"default-src 'none'; sandbox"}
	header["Age"] = []string{strconv.Itoa(max(0, int(x.now().Sub(a.At)/time.Second)))}
	if stream {
		header["Cache-Control"] = []string{"no-cache"}
		header["X-Accel-Buffering"] = []string{"no"}
	} else {
		header["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
	}
	x.start(http.StatusOK)
	if err := x.send(a.Body); err != nil {
		return err
	}
	if err := x.flush(http.NewResponseController(x.w)); err != nil {
		return err
	}
	// No model made it: the record says that the answer was whole, and claims
	// no first chunk.
	x.rec.LastByteAt = x.now()
	x.completed(x.rec.LastByteAt)
	return nil
}

// keep adds what the caller gets. What grows too large is not kept.
func (x *exchange) keep(p []byte) {
	f := x.fill
	if f == nil {
		return
	}
	if len(f.body)+len(p) > cache.MaxAnswer {
		x.fill = nil
		return
	}
	f.body = append(f.body, p...)
}

// keepable says of an answer's head whether the rest may be kept.
func (a *answer) keepable() bool {
	if a.StatusCode != http.StatusOK || a.sealed() {
		return false
	}
	for _, line := range a.Header["Cache-Control"] {
		if strings.Contains(strings.ToLower(line), "no-store") {
			return false
		}
	}
	return true
}

// keepBody stores an answer that is no stream, if it is a whole one.
func (x *exchange) keepBody(a *answer, stream bool) {
	if x.fill == nil || stream || !a.mayBeJSON() || !a.keepable() {
		return
	}
	said, err := wire.ReadAnswer(x.fill.body)
	if err != nil || said.Kind == wire.Failure || said.Seen != said.Ended {
		return
	}
	x.store(a.Header.Get("Content-Type"))
}

// store hands the collected answer over, once.
func (x *exchange) store(contentType string) {
	f := x.fill
	x.fill = nil
	x.g.cfg.Results.Put(x.r.Context(), f.key, cache.Answer{ContentType: contentType, Body: f.body, At: x.now()}, f.ttl)
}
