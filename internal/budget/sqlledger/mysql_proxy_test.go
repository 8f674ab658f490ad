//go:build mariadb

package sqlledger_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// commit is what a client sends to end a transaction.
const commit = "\x03COMMIT"

// proxy stands between the ledger and the server. Armed, it cuts the next
// connections that send a statement: behind the server's answer, which it
// keeps, or before the server has seen it.
type proxy struct {
	listener net.Listener
	target   string
	on       string // a part of that statement
	mu       sync.Mutex
	armed    string // "", "after", "before"
	shots    int
	cuts     int
}

func newProxy(t *testing.T, target, on string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, target: target, on: on}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) arm(how string, shots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.shots = how, shots
}

// fires takes one shot, if any is left.
func (p *proxy) fires() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shots == 0 {
		return ""
	}
	p.shots--
	p.cuts++
	return p.armed
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	defer func() { _, _ = client.Close(), server.Close() }()
	var mu sync.Mutex
	mute := false
	go func() { // answers
		defer func() { _ = client.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			quiet := mute
			mu.Unlock()
			if err != nil || quiet {
				return // the answer is in hand, and is lost here
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte(p.on)) {
			switch p.fires() {
			case "before":
				return
			case "after":
				mu.Lock()
				mute = true
				mu.Unlock()
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestMySQLLostCommit is C022 and C134: whichever way the reply is lost, the
// caller learns the truth, and what he asked for has happened once.
func TestMySQLLostCommit(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"after", "before"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, name := database(t)
			p := newProxy(t, s.Addr, commit)
			l := openMySQLAt(t, mariadb.TCP(p.listener.Addr().String(), name), sqlledger.Options{})
			defer func() { must(t, l.Close()) }()
			ctx, ref := context.Background(), budget.Ref{Tenant: "team-a", ID: "x"}
			must(t, second(l.SetPool(ctx, "default", 10)))
			must(t, second(l.SetQuota(ctx, "team-a", 5)))
			steps := []struct {
				name string
				do   func() error
			}{
				{"submit", func() error { return second(l.Submit(ctx, request("team-a", "x", 5))) }},
				{"submit again", func() error { return second(l.Submit(ctx, request("team-a", "x", 5))) }},
				{"admit", func() error { return second(l.Admit(ctx, 0)) }},
				{"release", func() error { return second(l.RequestRelease(ctx, ref)) }},
				{"credit", func() error { return second(l.Credit(ctx, ref, true)) }},
				{"credit again", func() error { return second(l.Credit(ctx, ref, true)) }},
			}
			used := []int64{0, 0, 5, 5, 0, 0}
			for i, step := range steps {
				p.arm(how, 1)
				must(t, step.do())
				tenant, err := l.Tenant(ctx, "team-a")
				must(t, err)
				if tenant.Used != used[i] || !verify(t, l).Clean() {
					t.Fatalf("after %s used is %d, want %d; %+v", step.name, tenant.Used, used[i], verify(t, l).Violations)
				}
			}
			if p.cuts != len(steps) {
				t.Fatalf("%d commits were cut, want %d", p.cuts, len(steps))
			}
			r, err := l.Get(ctx, ref)
			must(t, err)
			journal, err := l.Journal(ctx, ref)
			must(t, err)
			if r.Submits != 2 || len(journal) != 2 {
				t.Fatalf("%d submits and %d entries, want 2 and 2", r.Submits, len(journal))
			}
		})
	}
}
