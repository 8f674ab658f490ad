package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultConnections is how many callers may be connected to one process: at
// some ten KiB for each, what a process with 1 GiB of memory bears beside its
// work.
const DefaultConnections = 20_000

const (
	// complainEvery is how often the log says that callers are turned away.
	complainEvery = time.Minute
	// defaultLeastIdle is how long a connection is left alone that has no
	// request: it may be about to send one.
	defaultLeastIdle = time.Second
	// searchEvery is the pause after a search for idle connections that found
	// none.
	searchEvery = 100 * time.Millisecond
	// perAddress is the part of all that one address may have: one in so many.
	perAddress = 4
)

// ConnectionBounds say how many connections there may be.
type ConnectionBounds struct {
	Most int
	// Proxies are the addresses whose connections are many callers': they may
	// have all, as loopback may. Any other has a quarter at most; of IPv6 a
	// network of 64 bits counts as one address.
	Proxies   []netip.Prefix
	LeastIdle time.Duration // default 1 s
}

// Connections bounds how many connections a server has open at once. Where one
// more is too many, those go that have had no request for the longest. Where
// there are none, it is closed as soon as it is accepted, so that a balancer in
// front tries another process instead of waiting for this one.
type Connections struct {
	ConnectionBounds
	log        *slog.Logger
	refused    prometheus.Counter
	closed     prometheus.Counter
	complained atomic.Int64 // Unix nanoseconds

	mu       sync.Mutex
	open     map[*countedConn]struct{}
	from     map[netip.Prefix]int
	searched time.Time // in vain
}

// NewConnections registers how many there are and how many were refused. Fewer
// than asked for may be if the system allows the process fewer open files.
func NewConnections(b ConnectionBounds, log *slog.Logger, registerer prometheus.Registerer) (*Connections, error) {
	files, known := openFilesLimit()
	if most := fitting(b.Most, files); known && most < b.Most {
		log.Warn("fewer callers may be connected than --max-connections says, because the system lets this process open few files, and engines and ledger need some; raise the limit (ulimit -n, LimitNOFILE), or lower --max-connections",
			"maxConnections", b.Most, "openFiles", files, "connections", most)
		b.Most = most
	}
	if b.LeastIdle <= 0 {
		b.LeastIdle = defaultLeastIdle
	}
	c := &Connections{
		ConnectionBounds: b, log: log, open: map[*countedConn]struct{}{}, from: map[netip.Prefix]int{},
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_http_connections_refused_total", Help: "Connections that were closed at once because as many were open as may be, of all callers or of one address.",
		}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_http_connections_closed_idle_total", Help: "Connections without a request that were closed to make room for others.",
		}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_http_connections", Help: "Connections of callers that are open on the main listener.",
	}, func() float64 { return float64(c.count(func(*countedConn) bool { return true })) })
	idle := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_http_connections_idle", Help: "Those of them that have no request.",
	}, func() float64 { return float64(c.count(func(conn *countedConn) bool { return conn.idle.Load() != 0 })) })
	for _, m := range []prometheus.Collector{c.refused, c.closed, open, idle} {
		if err := registerer.Register(m); err != nil {
			return nil, fmt.Errorf("register the metrics of connections: %w", err)
		}
	}
	return c, nil
}

func (c *Connections) count(those func(*countedConn) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		if those(conn) {
			n++
		}
	}
	return n
}

// fitting is how many of so many connections leave a quarter of the open files
// for all else.
func fitting(most int, files uint64) int {
	if files > 1<<31 {
		return most
	}
	return max(1, min(most, int(files)-max(64, int(files)/4)))
}

// on counts what l accepts; a nil bound is none.
func (c *Connections) on(l net.Listener) net.Listener {
	if c == nil {
		return l
	}
	return countedListener{l, c}
}

// admit counts a connection in, or says why not.
func (c *Connections) admit(conn *countedConn) (why string, ok bool) {
	for {
		victims, why, ok := c.try(conn)
		if ok || len(victims) == 0 {
			return why, ok
		}
		for _, v := range victims {
			c.closed.Inc()
			_ = v.Close()
		}
	}
}

// try counts a connection in if there is room, and otherwise names those that
// may go for it.
func (c *Connections) try(conn *countedConn) (victims []*countedConn, why string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := max(1, c.Most/perAddress); conn.from.IsValid() && c.from[conn.from] >= most {
		return nil, fmt.Sprintf("one address may have a quarter of --max-connections, %d; name it by --proxies if it is a proxy's", most), false
	}
	if len(c.open) < c.Most {
		c.open[conn] = struct{}{}
		if conn.from.IsValid() {
			c.from[conn.from]++
		}
		return nil, "", true
	}
	return c.idle(time.Now()), "as many connections are open as may be; raise --max-connections, or run more processes", false
}

// idle returns those that have had no request for the longest: one in a
// hundred, so that a flood is not a search for each.
func (c *Connections) idle(now time.Time) []*countedConn {
	if now.Sub(c.searched) < searchEvery {
		return nil
	}
	type idler struct {
		conn  *countedConn
		since int64
	}
	var found []idler
	for conn := range c.open {
		if since := conn.idle.Load(); since != 0 && now.UnixNano()-since >= int64(c.LeastIdle) {
			found = append(found, idler{conn, since})
		}
	}
	if len(found) == 0 {
		c.searched = now
		return nil
	}
	slices.SortFunc(found, func(a, b idler) int { return cmp.Compare(a.since, b.since) })
	var longest []*countedConn
	for _, i := range found[:min(len(found), max(1, c.Most/100))] {
		longest = append(longest, i.conn)
	}
	return longest
}

func (c *Connections) leave(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	if n := c.from[conn.from]; n > 1 {
		c.from[conn.from] = n - 1
	} else {
		delete(c.from, conn.from)
	}
}

func (c *Connections) refuse(conn net.Conn, why string) {
	c.refused.Inc()
	defer func() { _ = conn.Close() }()
	now, last := time.Now().UnixNano(), c.complained.Load()
	if now-last > int64(complainEvery) && c.complained.CompareAndSwap(last, now) {
		c.log.Warn("callers are turned away: "+why, "open", c.Most, "latest", conn.RemoteAddr())
	}
}

// source is the address that a connection counts for; none for those that may
// have all.
func (c *Connections) source(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.IsLoopback() {
		return netip.Prefix{}
	}
	for _, p := range c.Proxies {
		if p.Contains(addr) {
			return netip.Prefix{}
		}
	}
	return networkOf(addr)
}

// addressOf is what counts as a connection's address; none if it is not by TCP.
func addressOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return networkOf(tcp.AddrPort().Addr())
}

// networkOf is what counts as one address: of IPv6 64 bits.
func networkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // it has that many
	return network
}

// strangerOf is the address that a request comes from.
func strangerOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return networkOf(from.Addr()).String()
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
		counted := &countedConn{Conn: conn, of: l.of, from: l.of.source(conn)}
		counted.idle.Store(time.Now().UnixNano())
		why, ok := l.of.admit(counted)
		if ok {
			return counted, nil
		}
		l.of.refuse(conn, why)
	}
}

// countedConn is counted until it is closed, however often that is.
type countedConn struct {
	net.Conn
	of   *Connections
	from netip.Prefix
	idle atomic.Int64 // Unix nanoseconds since which it has no request; 0: it has one
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.of.leave(c) })
	return c.Conn.Close() //nolint:wrapcheck // a connection's errors are the system's
}

// is hears from the server what the connection does.
func (c *countedConn) is(state http.ConnState) {
	switch state {
	case http.StateIdle:
		c.idle.Store(time.Now().UnixNano())
	case http.StateActive, http.StateHijacked:
		c.idle.Store(0)
	case http.StateNew, http.StateClosed: // idle from its beginning; and gone
	}
}

// CloseWrite is for net/http; see wordedConn.
func (c *countedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // the same
}
