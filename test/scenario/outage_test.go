//go:build mariadb && redis

package scenario_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/test/mariadb"
	"modeldock.io/test/onemachine"
	"modeldock.io/test/redisserver"
	"modeldock.io/test/scenario"
)

// outage is how long everything behind the gateway is away.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MODELDOCK_OUTAGE_SECONDS")
	if text == "" {
		text = "20"
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		t.Fatalf("MODELDOCK_OUTAGE_SECONDS must be a positive number, is %q", text)
	}
	return time.Duration(seconds) * time.Second
}

// TestOutageBehindTheGateway: controller, database and Redis are killed
// together under load and stay away. No request for a known key and model
// fails, neither in flight, nor meanwhile, nor when they come back; a gateway
// that starts in the midst of it serves by what is on its disk. Afterwards
// what is new arrives as ever.
func TestOutageBehindTheGateway(t *testing.T) {
	t.Parallel()
	lasts := outage(t)
	b := behindGateway(t)
	a, admin := scenario.As(t, b.machine, "team-a"), scenario.As(t, b.machine, "admin")
	admin.Must(200, "PUT", "/tenants/team-a/limits", `{"concurrency":100,"requestsPerMinute":1000000,"tokensPerMinute":100000000}`)
	a.Submit("known", 1, map[string]any{"model": map[string]any{"gpuMemoryMiB": 64, "args": []string{"--token-time=20ms", "--tokens=20"}}})
	a.Ready("known")
	b.answers("known")

	calls := b.load("known")
	calls.begun(20)
	began := time.Now()
	b.controller.Kill(t)
	if err := b.database.Halt(); err != nil {
		t.Fatal(err)
	}
	b.redis.Kill()
	wait(t, began.Add(lasts/2))
	calls.end("controller, database and Redis away")

	b.gateway.Kill(t)
	b.gateway.Start(t)
	b.answers("known")
	calls = b.load("known")
	wait(t, began.Add(lasts))
	calls.begun(20)
	calls.end("the same, with a gateway that started without them")

	calls = b.load("known")
	calls.begun(20)
	if err := errors.Join(b.database.Resume(t.Context()), b.redis.Launch(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.controller.Start(t)
	scenario.Eventually(t, "the management API to answer", func() bool { return a.Do("GET", "/requests/known", nil).Status == http.StatusOK }, func() any { return nil })
	a.Submit("fresh", 1, nil)
	a.Ready("fresh")
	b.answers("fresh")
	calls.end("all of them coming back")
	scenario.VerifyClean(t, b.machine)
}

// behind is a gateway with everything that it works with.
type behind struct {
	t          *testing.T
	machine    *onemachine.Machine
	database   *mariadb.Server
	redis      *redisserver.Server
	controller *onemachine.Process
	gateway    *onemachine.Process
}

func behindGateway(t *testing.T) *behind {
	t.Helper()
	b := &behind{t: t}
	var err error
	if b.database, err = mariadb.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.database.Stop(); err != nil {
			t.Error(err)
		}
	})
	if b.redis, err = redisserver.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.redis.Stop() })
	b.machine = onemachine.NewShared(t, b.database, nil)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token-of-gateways-and-controllers-of-this-test"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := freePort(t)
	b.controller = b.machine.Beside(t, "controller", "--listen", "127.0.0.1:0", "--machine", b.machine.Data(),
		"--gateway-listen", link, "--gateway-token-file", token)
	b.controller.Start(t)
	b.gateway = b.machine.Beside(t, "gateway", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--machine", b.machine.Data(),
		"--control", "http://"+link, "--gateway-token-file", token, "--state-dir", t.TempDir(), "--redis", b.redis.Addr)
	b.gateway.Start(t)
	return b
}

// freePort is an address that stays the same over a restart.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func wait(t *testing.T, until time.Time) {
	t.Helper()
	select { // the outage itself
	case <-t.Context().Done():
	case <-time.After(time.Until(until)):
	}
}

func (b *behind) answers(model string) {
	b.t.Helper()
	var err error
	scenario.Eventually(b.t, "the gateway to serve "+model, func() bool {
		err = b.ask(model, true)
		return err == nil
	}, func() any { return err })
}

// ask is one call, which must be answered whole.
func (b *behind) ask(model string, stream bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), scenario.Patience)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.gateway.URL()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.machine.Key("team-a"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	last := ""
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if stream && last != "data: [DONE]" || !stream && !strings.Contains(last, `"finish_reason"`) {
		return fmt.Errorf("the answer ends in %q", last)
	}
	return nil
}

// calling is a load without a break; its callers ask for streams and for whole
// answers in turn.
type calling struct {
	b       *behind
	stop    atomic.Bool
	done    atomic.Int64
	callers sync.WaitGroup
	mu      sync.Mutex
	failed  []string
}

func (b *behind) load(model string) *calling {
	c := &calling{b: b}
	for w := range 8 {
		c.callers.Go(func() {
			for !c.stop.Load() {
				if err := b.ask(model, w%2 == 0); err != nil {
					c.mu.Lock()
					c.failed = append(c.failed, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
					c.mu.Unlock()
				}
				c.done.Add(1)
				time.Sleep(10 * time.Millisecond) // a caller's pause
			}
		})
	}
	return c
}

// begun waits until so many calls have been answered.
func (c *calling) begun(count int64) {
	c.b.t.Helper()
	from := c.done.Load()
	scenario.Eventually(c.b.t, "calls to be answered", func() bool { return c.done.Load() >= from+count }, func() any { return c.done.Load() })
}

func (c *calling) end(during string) {
	c.b.t.Helper()
	c.stop.Store(true)
	c.callers.Wait()
	c.b.t.Logf("%s: %d calls, %d failed", during, c.done.Load(), len(c.failed))
	if len(c.failed) > 0 {
		c.b.t.Errorf("%s: %d of %d calls failed:\n%s", during, len(c.failed), c.done.Load(), strings.Join(c.failed[:min(len(c.failed), 10)], "\n"))
	}
}
