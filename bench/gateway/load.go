package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// load is what one round sends: each of the clients, on one connection, sends
// the request some times, one after the other.
type load struct {
	clients, each int
	request       string
}

// run sends the load and checks every answer. began is called by each client
// at the first bytes of its first answer.
func (l load) run(ctx context.Context, s *side, began func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("a round took two minutes"))
	defer cancel()
	l.request = s.forSide(l.request)
	failed := make(chan error, l.clients)
	for range l.clients {
		go func() { failed <- l.client(ctx, s.address, began) }()
	}
	var all []error
	for range l.clients {
		all = append(all, <-failed)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(all...)
}

func (l load) client(ctx context.Context, address string, began func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	reader := bufio.NewReaderSize(conn, 8<<10)
	for range l.each {
		if _, err := io.WriteString(conn, l.request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if err := readAnswer(reader, began); err != nil {
			return err
		}
		began = nil
	}
	return nil
}

// firstByte is the median time from sending a request to its answer's first
// byte of content, in milliseconds. Requests are sent at their rate, however
// long answers take, on connections that are kept.
func firstByte(ctx context.Context, s *side, request string, perSecond int, lasts time.Duration) (float64, error) {
	request = s.forSide(request)
	var (
		mu    sync.Mutex
		took  []float64
		idle  []*kept
		fails []error
		all   sync.WaitGroup
	)
	take := func() *kept {
		mu.Lock()
		defer mu.Unlock()
		if len(idle) == 0 {
			return &kept{}
		}
		c := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		return c
	}
	ticks := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticks.Stop()
	for range int(lasts.Seconds() * float64(perSecond)) {
		<-ticks.C
		c := take()
		all.Go(func() {
			ms, err := c.ask(ctx, s.address, request)
			mu.Lock()
			defer mu.Unlock()
			took, idle = append(took, ms), append(idle, c)
			if err != nil {
				fails = append(fails, err)
			}
		})
	}
	all.Wait()
	for _, c := range idle {
		if c.conn != nil {
			_ = c.conn.Close()
		}
	}
	if len(fails) > 0 {
		return 0, errors.Join(fails[:min(len(fails), 3)]...)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// kept is a connection that is used again.
type kept struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (c *kept) ask(ctx context.Context, address, request string) (float64, error) {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return 0, fmt.Errorf("dial: %w", err)
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		c.conn, c.reader = conn, bufio.NewReaderSize(conn, 8<<10)
	}
	sent := time.Now()
	if _, err := io.WriteString(c.conn, request); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	var first time.Time
	err := readAnswer(c.reader, func() { first = time.Now() })
	return float64(first.Sub(sent).Microseconds()) / 1000, err
}
