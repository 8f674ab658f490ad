package gateway

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultConnections is how many callers may be connected to one process: at
// some ten KiB for each, what a process with 1 GiB of memory bears beside its
// work.
const DefaultConnections = 20_000

// complainEvery is how often the log says that callers are turned away.
const complainEvery = time.Minute

// Connections bounds how many connections a server has open at once. One more
// is closed as soon as it is accepted, so that a balancer in front tries
// another process instead of waiting for this one.
type Connections struct {
	most       int64
	log        *slog.Logger
	open       atomic.Int64
	refused    prometheus.Counter
	complained atomic.Int64 // Unix nanoseconds
}

// NewConnections registers how many there are and how many were refused.
func NewConnections(most int, log *slog.Logger, registerer prometheus.Registerer) (*Connections, error) {
	c := &Connections{most: int64(most), log: log, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "modeldock_http_connections_refused_total", Help: "Connections that were closed at once because as many were open as may be.",
	})}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_http_connections", Help: "Connections of callers that are open on the main listener.",
	}, func() float64 { return float64(c.open.Load()) })
	for _, m := range []prometheus.Collector{c.refused, open} {
		if err := registerer.Register(m); err != nil {
			return nil, fmt.Errorf("register the metrics of connections: %w", err)
		}
	}
	return c, nil
}

// on counts what l accepts; a nil bound is none.
func (c *Connections) on(l net.Listener) net.Listener {
	if c == nil {
		return l
	}
	return countedListener{l, c}
}

func (c *Connections) refuse(conn net.Conn) {
	c.open.Add(-1)
	c.refused.Inc()
	defer func() { _ = conn.Close() }()
	now, last := time.Now().UnixNano(), c.complained.Load()
	if now-last > int64(complainEvery) && c.complained.CompareAndSwap(last, now) {
		c.log.Warn("callers are turned away: as many connections are open as may be; raise --max-connections, or run more processes", "open", c.most, "latest", conn.RemoteAddr())
	}
}

type countedListener struct {
	net.Listener
	of *Connections
}

func (l countedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server looks at what kind it is
		}
		if l.of.open.Add(1) <= l.of.most {
			return &countedConn{Conn: conn, of: l.of}, nil
		}
		l.of.refuse(conn)
	}
}

// countedConn is counted until it is closed, however often that is.
type countedConn struct {
	net.Conn
	of   *Connections
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close() //nolint:wrapcheck // a connection's errors are the system's
}

// CloseWrite is for net/http; see wordedConn.
func (c *countedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // the same
}
