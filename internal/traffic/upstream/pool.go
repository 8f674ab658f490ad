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

// Pool keeps idle connections, by address.
type Pool struct {
	now    func() time.Time
	dialer net.Dialer

	mu     sync.Mutex
	idle   map[string][]*conn
	timed  bool // the sweep is due
	closed bool

	readers sync.Pool // of *bufio.Reader
	frames  sync.Pool // of *frame
}

// New returns a pool without connections.
func New(now func() time.Time) *Pool {
	return &Pool{
		now:  now,
		idle: map[string][]*conn{},
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
	p.idle, p.closed = map[string][]*conn{}, true
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
func (p *Pool) take(address string) *conn {
	for {
		p.mu.Lock()
		conns := p.idle[address]
		if len(conns) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := conns[len(conns)-1] // the one that was used last
		conns[len(conns)-1] = nil
		p.idle[address] = conns[:len(conns)-1]
		p.mu.Unlock()
		if p.now().Sub(c.since) < idleFor && c.probe.silent() {
			c.reused = true
			return c
		}
		c.discard()
	}
}

func (p *Pool) dial(ctx context.Context, address string) (*conn, error) {
	c, err := p.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach the engine: %w", err)
	}
	out := &conn{socket: c}
	out.probe.watch(c)
	return out, nil
}

// put keeps a connection whose answer was read to its end.
func (p *Pool) put(address string, c *conn) {
	c.since = p.now()
	p.mu.Lock()
	conns := p.idle[address]
	if p.closed || len(conns) >= maxIdle {
		p.mu.Unlock()
		c.discard()
		return
	}
	p.idle[address] = append(conns, c)
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
	for address, conns := range p.idle {
		n := 0 // the oldest come first
		for n < len(conns) && now.Sub(conns[n].since) >= idleFor {
			n++
		}
		old = append(old, conns[:n]...)
		if rest := copy(conns, conns[n:]); rest > 0 {
			clear(conns[rest:])
			p.idle[address] = conns[:rest]
		} else {
			delete(p.idle, address)
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
