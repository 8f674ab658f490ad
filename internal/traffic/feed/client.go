package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic"
)

const (
	askWait     = 20 * time.Second // how long the control plane may think
	answerSlack = 10 * time.Second // on top, before it is given up
	callWait    = 5 * time.Second  // for everything that does not wait
	firstPause  = 100 * time.Millisecond
	lastPause   = 2 * time.Second
	maxSnapshot = 512 << 20
)

// ClientConfig is what a gateway's side works with.
type ClientConfig struct {
	URLs   []string // of the control plane; tried in turn
	Token  string
	File   string // keeps the last snapshot; empty: nowhere
	HTTP   *http.Client
	Clock  func() time.Time
	Logger *slog.Logger
}

// Client keeps a gateway's snapshot.
type Client struct {
	cfg     ClientConfig
	current atomic.Pointer[traffic.Snapshot]
	next    atomic.Uint64 // of the URLs
	fresh   *Freshness
	lost    atomic.Pointer[string] // why nobody answers; nil while somebody does

	mu      sync.Mutex
	tag     string // of current
	version uint64
	changed func()
}

// NewClient begins with the snapshot on disk, if there is one. Run keeps it
// current.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	c := &Client{cfg: cfg, fresh: NewFreshness(cfg.Clock), changed: func() {}}
	if cfg.File == "" {
		return c, nil
	}
	stat, err := os.Stat(cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept snapshot: %w", err)
	}
	body, err := os.ReadFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("read the kept snapshot: %w", err)
	}
	s, err := decode(body)
	if err != nil {
		cfg.Logger.Warn("the kept snapshot is of no use; nobody is served before a new one comes", "file", cfg.File, "error", err)
		return c, nil
	}
	s.At = stat.ModTime()
	c.publish(s, "")
	return c, nil
}

// OnChange names the one who is told of every new content. It is called
// before Run.
func (c *Client) OnChange(changed func()) { c.changed = changed }

// Snapshot returns the last one, nil if none ever came.
func (c *Client) Snapshot() *traffic.Snapshot { return c.current.Load() }

// Ledger is the incarnation of the ledger that the last snapshot is of; empty
// if none ever came.
func (c *Client) Ledger() string {
	if s := c.current.Load(); s != nil {
		return s.Ledger
	}
	return ""
}

// Lost says why the control plane does not answer; empty while it does.
func (c *Client) Lost() string {
	if why := c.lost.Load(); why != nil {
		return *why
	}
	return ""
}

// Run keeps the snapshot current until ctx ends.
func (c *Client) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		err := c.ask(ctx, askWait, false)
		if ctx.Err() != nil {
			return
		}
		c.note(err)
		if err == nil {
			pause = firstPause
			continue
		}
		c.next.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads gateways, no secret
		}
		pause = min(2*pause, lastPause)
	}
}

// note tells the beginning and the end of an outage once.
func (c *Client) note(err error) {
	was := c.lost.Load()
	switch {
	case err == nil && was != nil:
		c.lost.Store(nil)
		c.cfg.Logger.Info("the control plane answers again")
	case err != nil:
		why := err.Error()
		c.lost.Store(&why)
		if was == nil {
			goesOn := "traffic goes on with the last snapshot"
			if c.current.Load() == nil {
				goesOn = "there is no snapshot yet, so that no caller can be served until it does"
			}
			c.cfg.Logger.Warn("the control plane does not answer; "+goesOn, "error", err)
		}
	}
}

// Refresh returns once Snapshot was taken at since or later, or with the
// reason why no controller had one.
func (c *Client) Refresh(ctx context.Context, since time.Time) error {
	return c.fresh.Since(ctx, since, c.at, func(ctx context.Context) (err error) {
		for range c.cfg.URLs {
			if err = c.ask(ctx, 0, true); err == nil || ctx.Err() != nil {
				return err
			}
			c.next.Add(1)
		}
		return err
	})
}

func (c *Client) at() time.Time {
	if s := c.current.Load(); s != nil {
		return s.At
	}
	return time.Time{}
}

// ask makes one call for a snapshot that is not the present one.
func (c *Client) ask(ctx context.Context, wait time.Duration, fresh bool) error {
	limit := callWait
	if wait > 0 {
		limit = wait + answerSlack
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	path := PathSnapshot + "?wait=" + strconv.Itoa(int(wait.Seconds()))
	if fresh {
		path += "&fresh=1"
	}
	c.mu.Lock()
	tag := c.tag
	c.mu.Unlock()
	began := c.cfg.Clock()
	resp, err := c.do(ctx, http.MethodGet, path, tag, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// It was taken so long after the call came there, or before: not later than
	// so long after the call began here. When the answer came says nothing.
	taken, _ := strconv.Atoi(resp.Header.Get(headerTaken))
	at := began.Add(time.Duration(taken) * time.Millisecond)
	switch resp.StatusCode {
	case http.StatusNotModified:
		c.confirm(tag, at)
		return nil
	case http.StatusOK:
		return c.take(resp, at)
	}
	return refused(resp)
}

func (c *Client) take(resp *http.Response, at time.Time) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSnapshot))
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	s, err := decode(body)
	if err != nil {
		return err
	}
	s.At = at
	if !c.publish(s, resp.Header.Get("ETag")) || c.cfg.File == "" {
		return nil
	}
	if err := keep(c.cfg.File, body); err != nil {
		c.cfg.Logger.Warn("the snapshot is not kept on disk", "error", err)
	}
	return nil
}

// publish puts s in the place of an older one.
func (c *Client) publish(s *traffic.Snapshot, tag string) bool {
	c.mu.Lock()
	if was := c.current.Load(); was != nil && s.At.Before(was.At) {
		c.mu.Unlock()
		return false // two calls ran side by side, and this one was answered first
	}
	c.version++
	s.Version, c.tag = c.version, tag
	c.current.Store(s)
	c.mu.Unlock()
	c.changed()
	return true
}

// confirm notes that the present content was still true.
func (c *Client) confirm(tag string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current.Load()
	if s == nil || c.tag != tag || !s.At.Before(at) {
		return
	}
	same := *s
	same.At = at
	c.current.Store(&same)
}

// Store sends evidence back; it is a gateway's sink.
func (c *Client) Store(ctx context.Context, batch []traffic.Inference) error {
	return c.post(ctx, PathInferences, batch)
}

// wakeTries is how often a wake is sent, to one controller after the other.
const wakeTries = 6

// Wake asks for a replica of a model whose callers wait. It is repeated for
// some seconds, because they do.
func (c *Client) Wake(ctx context.Context, w traffic.Wake) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := c.post(ctx, PathWake, w)
		if err == nil || try == wakeTries {
			return err
		}
		c.next.Add(1)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// post sends what needs no answer.
func (c *Client) post(ctx context.Context, path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the call %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	resp, err := c.do(ctx, http.MethodPost, path, "", body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNoContent {
		return refused(resp)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path, tag string, body []byte) (*http.Response, error) {
	url := c.cfg.URLs[c.next.Load()%uint64(len(c.cfg.URLs))]
	r, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call the control plane: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	resp, err := c.cfg.HTTP.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call the control plane: %w", err)
	}
	return resp, nil
}

func refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // what it says beside the status is a help, no more
	return fmt.Errorf("the control plane at %s answered %s: %s", resp.Request.URL.Host, resp.Status, bytes.TrimSpace(text))
}

// keep replaces the file in one step; only its owner can read it.
func keep(path string, body []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return fmt.Errorf("keep the snapshot: %w", err)
	}
	_, err = tmp.Write(body)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("keep the snapshot: %w", err)
	}
	return nil
}
