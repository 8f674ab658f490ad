package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
)

// connected sends a request's head and what there is of its body.
func (b *bundle) connected(key, path, begin string, length int) net.Conn {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	b.ok(err)
	b.Cleanup(func() { _ = conn.Close() })
	b.ok(conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, key, length, begin)
	b.ok(err)
	return conn
}

// A body that trickles holds its connection for a while and no longer, also
// where nobody reads it; an answer may take as long as it takes.
func TestSlowBodiesEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, manual, func(c *Config) { c.BodyTime = 200 * time.Millisecond })
	for name, c := range map[string]struct {
		key, path string
		status    int
		code      string
		more      int // bytes that it says it has
	}{
		"of somebody":         {b.a, "/requests", http.StatusRequestTimeout, "body_too_slow", 0},
		"that signs in":       {"", "/session", http.StatusRequestTimeout, "body_too_slow", 0},
		"of nobody":           {"mdk_nobody_0123456789abcdef0123456789abcdef", "/requests", http.StatusUnauthorized, "unauthorised", 0},
		"that nobody asks of": {b.a, "/nowhere", http.StatusNotFound, "not_found", 0},
		"that is too large":   {"", "/requests", http.StatusRequestEntityTooLarge, "body_too_large", MaxBody},
		"on a tricky path":    {"", "/requests/%2e%2e/x", http.StatusBadRequest, "invalid", 0},
	} {
		conn := b.connected(c.key, c.path, `{"id":`, 1000+c.more)
		reader := bufio.NewReader(conn)
		resp, err := http.ReadResponse(reader, nil)
		b.ok(err)
		text, err := io.ReadAll(resp.Body)
		b.ok(err)
		b.ok(resp.Body.Close())
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.code) {
			t.Errorf("a body %s: %d %s", name, resp.StatusCode, text)
		}
		if _, err := reader.ReadByte(); err == nil {
			t.Errorf("a body %s: the connection goes on", name)
		} else if wait, ok := err.(net.Error); ok && wait.Timeout() { //nolint:errorlint // the connection's own
			t.Errorf("a body %s: the connection is still open", name)
		}
	}
}

// slowStepper takes longer than a body may, unless its caller is gone.
type slowStepper time.Duration

func (s slowStepper) Step(ctx context.Context, _ string, _ int, _ string) ([]openapi.StepDone, error) {
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("the step was cut: %w", context.Cause(ctx))
	case <-time.After(time.Duration(s)):
		return []openapi.StepDone{}, nil
	}
}

// The bound is on the body: an answer that takes longer is not cut.
func TestSlowAnswersDoNotEnd(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	b := setup(t, func(c *Config) {
		c.BodyTime = limit
		c.Stepper = slowStepper(3 * limit)
	})
	body := `{"what":"admit"}`
	conn := b.connected(b.admin, "/step", body, len(body))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	b.ok(err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Errorf("answered %d %s", resp.StatusCode, text)
	}
}
