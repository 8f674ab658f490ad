package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

const (
	// callWait bounds a call whose context has no end of its own: a target
	// answers from memory, or after one write of a file.
	callWait = 10 * time.Second
	// watchPause is between two attempts to listen to changes.
	watchPause = 200 * time.Millisecond
)

// Client delivers to the target of another process.
type Client struct {
	dir    string
	folder *os.File // of the socket, held so that its path is short
	http   *http.Client
}

var _ Served = (*Client)(nil)

// NewClient returns a client of the target whose process has the data
// directory dir, which must exist; the process need not run yet.
func NewClient(dir string) (*Client, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the data directory of the machine's target: %w", err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", reachable(folder))
	}
	return &Client{dir: dir, folder: folder, http: &http.Client{Transport: &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}}}, nil
}

// Close gives the connections back.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return c.folder.Close()
}

// Apply implements delivery.Target.
func (c *Client) Apply(ctx context.Context, d delivery.Desired) (out budget.Object, err error) {
	err = c.call(ctx, pathApply, d, &out)
	return out, err
}

// Delete implements delivery.Target.
func (c *Client) Delete(ctx context.Context, ref budget.Ref, uid string) error {
	return c.call(ctx, pathDelete, deletion{ref, uid}, &struct{}{})
}

// Observe implements delivery.Target.
func (c *Client) Observe(ctx context.Context, ref budget.Ref) (out delivery.Status, err error) {
	err = c.call(ctx, pathObserve, ref, &out)
	return out, err
}

// List implements delivery.Target.
func (c *Client) List(ctx context.Context) (out []delivery.Status, err error) {
	err = c.call(ctx, pathList, struct{}{}, &out)
	return out, err
}

// Logs implements Served.
func (c *Client) Logs(ctx context.Context, ref budget.Ref, replica string, tail int, follow bool) (io.ReadCloser, error) {
	q := url.Values{"tenant": {ref.Tenant}, "id": {ref.ID}, "replica": {replica}, "tail": {strconv.Itoa(tail)}, "follow": {strconv.FormatBool(follow)}}
	resp, err := c.do(ctx, http.MethodGet, pathLogs+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Get reads what the target's process tells beside the target itself.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return c.read(path, resp, out)
}

// Post is Get for what changes something there.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.call(ctx, path, in, out)
}

// Watch calls changed for every hint until ctx ends; with an empty Ref
// anything may have changed, as at the beginning and after every interruption.
func (c *Client) Watch(ctx context.Context, changed func(budget.Ref)) {
	for ctx.Err() == nil {
		c.watchOnce(ctx, changed)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

func (c *Client) watchOnce(ctx context.Context, changed func(budget.Ref)) {
	resp, err := c.do(ctx, http.MethodGet, pathChanges, nil)
	if err != nil {
		return // the loops' own polls go on and say so
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var ref budget.Ref
		if lines.Decode(&ref) != nil {
			return
		}
		changed(ref)
	}
}

func (c *Client) call(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the call %s: %w", path, err)
	}
	resp, err := c.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return c.read(path, resp, out)
}

func (c *Client) read(path string, resp *http.Response, out any) error {
	err := json.NewDecoder(resp.Body).Decode(out)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("read the machine's answer to %s: %w", path, err)
	}
	return nil
}

// do returns the answer of a call that succeeded; its body is the caller's.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://machine"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the call %s: %w", path, err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the process that runs the models (`modeldock up` on %s) does not answer: %w", c.dir, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var f failure
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&f); err != nil {
		return nil, fmt.Errorf("the process that runs the models answered %s to %s", resp.Status, path)
	}
	return nil, f.err()
}
