package onemachine

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"modeldock.io/test/mariadb"
	"modeldock.io/test/scenario"
)

// Service is what stands before several processes that serve the same, as a
// cluster's Service does: it knows who takes new requests, and who still has
// some. A process is stopped the way a rollout stops a Pod: taken out first.
type Service struct {
	ready string // path that says whether a process is ready, on its ops address

	mu      sync.Mutex
	members []*member
	turn    int
}

type member struct {
	process *Process
	ops     string
	in      bool
	open    int // requests that were begun and have not ended
	on      int // those of them that have no answer's header yet
}

// Take names a process for one request; answered is called when the header of
// its answer is there, done when it has ended.
func (s *Service) Take() (url string, answered, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.members {
		s.turn++
		m := s.members[s.turn%len(s.members)]
		if m.in {
			m.open++
			m.on++
			answered := sync.OnceFunc(func() { s.count(m, 0, -1) })
			return m.process.URL(), answered, func() {
				answered()
				s.count(m, -1, 0)
			}
		}
	}
	panic("every process is taken out")
}

func (s *Service) count(m *member, open, on int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.open += open
	m.on += on
}

func (m *member) counts(s *Service) (open, on int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.open, m.on
}

// All are the URLs of all processes.
func (s *Service) All() (urls []string) {
	for _, m := range s.members {
		urls = append(urls, m.process.URL())
	}
	return urls
}

// Ops are their operations listeners.
func (s *Service) Ops() (urls []string) {
	for _, m := range s.members {
		urls = append(urls, "http://"+m.ops)
	}
	return urls
}

// Processes are all of them, also those that are taken out.
func (s *Service) Processes() (all []*Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		all = append(all, m.process)
	}
	return all
}

// Stop stops all of them.
func (s *Service) Stop(t testing.TB) {
	for _, m := range s.members {
		m.process.Stop(t)
	}
}

// Roll replaces one process after the other, each once the one before is
// ready. What is on its way to a process that was taken out arrives before that
// one is told to end, as the chart's preStop hook sees to; streams may run on.
// left hears how many do.
func (s *Service) Roll(t testing.TB, left func(open int)) {
	t.Helper()
	for _, m := range s.members {
		s.set(m, false)
		scenario.Eventually(t, "what is on its way to "+m.process.name, func() bool {
			_, on := m.counts(s)
			return on == 0
		}, func() any { return "some have no answer yet" })
		open, _ := m.counts(s)
		left(open)
		m.process.Stop(t) // streams may end meanwhile
		m.process.Start(t)
		s.await(t, m)
		s.set(m, true)
	}
}

func (s *Service) set(m *member, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.in = in
}

func (s *Service) await(t testing.TB, m *member) {
	t.Helper()
	var status int
	scenario.Eventually(t, m.process.name+" to be ready", func() bool {
		resp, err := http.Get("http://" + m.ops + s.ready)
		if err != nil {
			return false
		}
		status = resp.StatusCode
		_ = resp.Body.Close()
		return status == http.StatusOK
	}, func() any { return status })
}

// Gated is a platform whose callers go through gateways of their own, and whose
// management API is that of controllers: all beside the one machine that runs
// the models.
type Gated struct {
	*Machine
	Controllers, Gateways *Service
}

// API implements scenario.Harness.
func (g *Gated) API() string {
	url, _, done := g.Controllers.Take()
	done()
	return url
}

// Gateway implements scenario.Harness.
func (g *Gated) Gateway() string {
	url, _, done := g.Gateways.Take()
	done()
	return url
}

// NewGated starts controllers and gateways beside a machine, on a database of
// its own in server.
func NewGated(t testing.TB, server *mariadb.Server, controllers, gateways int) *Gated {
	t.Helper()
	g := &Gated{Machine: NewShared(t, server, nil), Controllers: &Service{ready: "/readyz"}, Gateways: &Service{ready: "/readyz"}}
	ports := freePorts(t, 3*controllers+2*gateways)
	take := func() string {
		address := ports[0]
		ports = ports[1:]
		return address
	}
	var links []string
	for range controllers {
		listen, link, ops := take(), take(), take()
		links = append(links, "http://"+link)
		g.Controllers.add(t, g.withToken(t, "controller", "--listen", listen, "--machine", g.Data(), "--gateway-listen", link, "--ops-listen", ops), ops)
	}
	for i := range gateways {
		listen, ops := take(), take()
		g.Gateways.add(t, g.withToken(t, "gateway", "--listen", listen, "--ops-listen", ops, "--machine", g.Data(),
			"--control", strings.Join(links, ","), "--state-dir", filepath.Join(g.dir, "gateway-"+strconv.Itoa(i)), "--stop-grace", "30s"), ops)
	}
	return g
}

// Token is what controllers and gateways share.
func (g *Gated) Token() string { return strings.Repeat("token-of-the-test", 3) }

// withToken is a process that knows the gateways' token.
func (g *Gated) withToken(t testing.TB, args ...string) *Process {
	p := g.process(t, args...)
	p.env = append(slices.Clone(p.env), "MODELDOCK_GATEWAY_TOKEN="+g.Token())
	return p
}

func (s *Service) add(t testing.TB, p *Process, ops string) {
	t.Helper()
	t.Cleanup(func() { p.Stop(t) })
	m := &member{process: p, ops: ops, in: true}
	p.Start(t)
	s.await(t, m)
	s.members = append(s.members, m)
}

// freePorts finds addresses that nobody listens on: all are held until all are
// found.
func freePorts(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
