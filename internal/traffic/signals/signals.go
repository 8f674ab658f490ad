// Package signals asks engines how busy they are (traffic account): their own
// queue and how full their KV cache is. The router adds the answers to what it
// counts itself, as a penalty and only while they are fresh; an engine that
// has no such metrics, or does not answer, is routed to all the same.
package signals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// DefaultPeriod is the pause between two questions to one engine.
const DefaultPeriod = 2 * time.Second

const (
	// maxWatched bounds the engines that one gateway asks.
	maxWatched = 2000
	// maxText is the most that is read of an engine's metrics.
	maxText = 1 << 20
	// givenUpAfter questions without a useful answer are followed by longer
	// pauses: the engine has no such metrics, unless it ever had some.
	givenUpAfter = 3
	givenUpPause = 15 // periods
)

// Config is what a watcher works with.
type Config struct {
	Table  *route.Table
	Period time.Duration    // default DefaultPeriod
	Clock  func() time.Time // default time.Now
	// Verify judges new connections to endpoints that have a UserID; nil
	// believes whoever answers.
	Verify func(c net.Conn, user int) error
}

// Watcher asks every endpoint of a table, each on a goroutine of its own.
type Watcher struct {
	cfg Config

	mu      sync.Mutex
	watched map[string]watch // by endpoint UID
	all     sync.WaitGroup
}

type watch struct {
	address string
	stop    context.CancelFunc
}

// New returns a watcher; Run starts it.
func New(cfg Config) *Watcher {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Watcher{cfg: cfg, watched: map[string]watch{}}
}

// client asks one engine, on a connection of its own.
func (w *Watcher) client(user int) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil || user == 0 || w.cfg.Verify == nil {
			return c, err //nolint:wrapcheck // it names the address
		}
		if err := w.cfg.Verify(c, user); err != nil {
			_ = c.Close() // nothing was sent
			return nil, err
		}
		return c, nil
	}
	return &http.Client{
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10},
		// An engine is other people's code: it cannot send us elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run watches the table's endpoints until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	stop := w.cfg.Table.OnChange(func([]route.Key) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer stop()
	defer w.all.Wait() // their contexts end with ctx
	for {
		w.follow(ctx, w.cfg.Table.Endpoints())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// follow makes the goroutines agree with the endpoints.
func (w *Watcher) follow(ctx context.Context, endpoints []traffic.Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		there[e.UID] = true
		old, known := w.watched[e.UID]
		if known && old.address == e.Address || !known && len(w.watched) >= maxWatched {
			continue
		}
		if known {
			old.stop()
		}
		own, cancel := context.WithCancel(ctx)
		w.watched[e.UID] = watch{e.Address, cancel}
		w.all.Go(func() { w.ask(own, e) })
	}
	for uid, old := range w.watched {
		if !there[uid] {
			old.stop()
			delete(w.watched, uid)
		}
	}
}

// ask questions one engine until ctx ends.
func (w *Watcher) ask(ctx context.Context, e traffic.Endpoint) {
	client := w.client(e.UserID)
	defer client.CloseIdleConnections()
	timer := time.NewTimer(jittered(w.cfg.Period) / 2) // not all at once at a start
	defer timer.Stop()
	told := false
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := w.cfg.Period
		s, err := w.read(ctx, client, e.Address)
		if err == nil {
			misses, told = 0, true
			s.At, s.Period = w.cfg.Clock(), w.cfg.Period
			w.cfg.Table.Report(e.UID, s)
		} else if misses++; misses >= givenUpAfter && !told {
			pause *= givenUpPause
		}
		timer.Reset(jittered(pause))
	}
}

// jittered is d within a tenth, so that the questions of many gateways to one
// engine spread.
func jittered(d time.Duration) time.Duration {
	return d*9/10 + rand.N(d/5+1) //nolint:gosec // spreads load, no secret
}

var errNoMetrics = errors.New("the engine has none of the metrics that are known")

// read asks once. The caller does not wait longer than half a period.
func (w *Watcher) read(ctx context.Context, client *http.Client, address string) (route.Signal, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Period/2)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return route.Signal{}, fmt.Errorf("ask the engine for its metrics: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return route.Signal{}, fmt.Errorf("ask the engine for its metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return route.Signal{}, errNoMetrics
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxText))
	if err != nil {
		return route.Signal{}, fmt.Errorf("read the engine's metrics: %w", err)
	}
	s, known := parse(text)
	if !known {
		return s, errNoMetrics
	}
	return s, nil
}
