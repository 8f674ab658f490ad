// Package upstream is the traffic account's way to the engines: HTTP/1.1 on
// connections that are kept. It does what net/http's transport does and a
// gateway needs, with no goroutine and no copy of a request beside: who asks
// also writes and reads, and a request's pieces go to the system as they lie.
// Answers are parsed by net/http.
package upstream

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// idleFor is shorter than the five seconds after which common engines'
	// servers close an idle connection: a request must not meet that close.
	idleFor = 4 * time.Second
	// maxIdle is how many idle connections are kept to one engine.
	maxIdle = 512
	// maxHead is the most that an answer's head may have.
	maxHead = 64 << 10
	// bufferSize is what is read of an answer's head at once.
	bufferSize = 2 << 10
)

// Verify tells whether a new connection leads to a process of a user of this
// machine. Nothing is sent on one that does not.
type Verify func(c net.Conn, user int) error

// engine is who is called: a connection to one that ended must not serve
// another user's, which was given the same address.
type engine struct {
	address string
	user    int
}

// Pool keeps idle connections, by engine.
type Pool struct {
	now    func() time.Time
	verify Verify
	dialer net.Dialer

	mu     sync.Mutex
	idle   map[engine][]*conn
	timed  bool // the sweep is due
	closed bool

	readers sync.Pool // of *bufio.Reader
	frames  sync.Pool // of *frame
}

// New returns a pool without connections. Where verify is nil, whoever answers
// is believed.
func New(now func() time.Time, verify Verify) *Pool {
	return &Pool{
		now: now, verify: verify,
		idle: map[engine][]*conn{},
		dialer: net.Dialer{
			Timeout:         5 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3},
		},
	}
}

// Close closes idle connections, and those in use as soon as they are idle.
func (p *Pool) Close() {
	p.mu.Lock()
	all := p.idle
	p.idle, p.closed = map[engine][]*conn{}, true
	p.mu.Unlock()
	for _, conns := range all {
		for _, c := range conns {
			c.discard()
		}
	}
}

// conn is one connection to an engine.
type conn struct {
	socket net.Conn
	reader *bufio.Reader // nil while it is idle
	left   int           // bytes that the head may still have; negative: no head is read
	probe  probe
	reused bool
	since  time.Time // when it became idle
}

func (c *conn) discard() { _ = c.socket.Close() } // nothing is lost with it

// Read bounds what is read of a head, whose parser has no bound of its own.
func (c *conn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("the answer's head is larger than %d bytes", maxHead)
	}
	if c.left > 0 && len(p) > c.left {
		p = p[:c.left]
	}
	n, err := c.socket.Read(p)
	if c.left > 0 {
		c.left -= n
	}
	return n, err //nolint:wrapcheck // a connection's errors are the system's
}

// take returns an idle connection that the engine has not closed, or nil.
func (p *Pool) take(to engine) *conn {
	for {
		p.mu.Lock()
		conns := p.idle[to]
		if len(conns) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := conns[len(conns)-1] // the one that was used last
		conns[len(conns)-1] = nil
		p.idle[to] = conns[:len(conns)-1]
		p.mu.Unlock()
		if p.now().Sub(c.since) < idleFor && c.probe.silent() {
			c.reused = true
			return c
		}
		c.discard()
	}
}

func (p *Pool) dial(ctx context.Context, to engine) (*conn, error) {
	c, err := p.dialer.DialContext(ctx, "tcp", to.address)
	if err == nil && to.user != 0 && p.verify != nil {
		if err = p.verify(c, to.user); err != nil {
			_ = c.Close() // nothing was sent: as good as not connected
			err = &net.OpError{Op: "dial", Net: "tcp", Addr: c.RemoteAddr(), Err: err}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reach the engine: %w", err)
	}
	out := &conn{socket: c}
	out.probe.watch(c)
	return out, nil
}

// put keeps a connection whose answer was read to its end.
func (p *Pool) put(to engine, c *conn) {
	c.since = p.now()
	p.mu.Lock()
	conns := p.idle[to]
	if p.closed || len(conns) >= maxIdle {
		p.mu.Unlock()
		c.discard()
		return
	}
	p.idle[to] = append(conns, c)
	sweep := !p.timed
	p.timed = true
	p.mu.Unlock()
	if sweep {
		time.AfterFunc(idleFor, p.sweep)
	}
}

// sweep closes what was idle for too long, and comes again while there is any.
func (p *Pool) sweep() {
	now := p.now()
	var old []*conn
	p.mu.Lock()
	for to, conns := range p.idle {
		n := 0 // the oldest come first
		for n < len(conns) && now.Sub(conns[n].since) >= idleFor {
			n++
		}
		old = append(old, conns[:n]...)
		if rest := copy(conns, conns[n:]); rest > 0 {
			clear(conns[rest:])
			p.idle[to] = conns[:rest]
		} else {
			delete(p.idle, to)
		}
	}
	p.timed = len(p.idle) > 0
	again := p.timed
	p.mu.Unlock()
	for _, c := range old {
		c.discard()
	}
	if again {
		time.AfterFunc(idleFor/4, p.sweep)
	}
}
