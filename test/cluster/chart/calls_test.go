//go:build cluster

package chart

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// stream is one streamed call to its end; begun is told of the first chunk.
func (r *Release) stream(ctx context.Context, model string, begun func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": "hello"}}})
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Gateway+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+r.Keys["team-a"])
	q.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // as a new client each time
	resp, err := client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	lines, done := bufio.NewScanner(resp.Body), false
	for lines.Scan() {
		if begun != nil && strings.Contains(lines.Text(), `"content"`) {
			begun()
			begun = nil
		}
		done = done || lines.Text() == "data: [DONE]"
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !done {
		return errors.New("the stream was cut before [DONE]")
	}
	return nil
}

// calls go on until they are ended.
type calls struct {
	t        *testing.T
	stop     context.CancelFunc
	all      sync.WaitGroup
	made     int
	failures []string
}

func (r *Release) keepCalling(t *testing.T, model string) *calls {
	ctx, stop := context.WithCancel(t.Context())
	c := &calls{t: t, stop: stop}
	c.all.Go(func() {
		for ctx.Err() == nil {
			if err := r.stream(context.WithoutCancel(ctx), model, nil); err != nil {
				c.failures = append(c.failures, time.Now().UTC().Format(time.TimeOnly)+" "+err.Error())
			}
			c.made++
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return c
}

// end fails with every call that failed.
func (c *calls) end() {
	c.t.Helper()
	c.stop()
	c.all.Wait()
	c.t.Logf("%d calls during the upgrade, %d failed", c.made, len(c.failures))
	if c.made == 0 || len(c.failures) > 0 {
		c.t.Errorf("%d of %d calls failed:\n%s", len(c.failures), c.made, strings.Join(c.failures, "\n"))
	}
}
