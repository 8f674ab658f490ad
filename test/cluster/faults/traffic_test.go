package faults

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
	"sync/atomic"
	"testing"
	"time"
)

// callWait bounds one call of a model; a stream takes two seconds.
const callWait = 20 * time.Second

// traffic calls a running model without a break: one caller streams, another
// asks for whole answers. No call may fail.
type traffic struct {
	t             *testing.T
	stop          context.CancelFunc
	all           sync.WaitGroup
	streams, asks atomic.Int64
	mu            sync.Mutex
	failures      []string
}

func (b *bundle) traffic(tenant, model string) *traffic {
	ctx, stop := context.WithCancel(b.t.Context())
	w := &traffic{t: b.t, stop: stop}
	key, url := b.dock.Keys[tenant], b.dock.Gateways[0].URL
	for _, caller := range []struct {
		stream bool
		count  *atomic.Int64
	}{{true, &w.streams}, {false, &w.asks}} {
		w.all.Go(func() {
			for ctx.Err() == nil {
				err := chat(context.WithoutCancel(ctx), url, key, model, caller.stream)
				if err != nil {
					w.mu.Lock()
					w.failures = append(w.failures, fmt.Sprintf("%s stream=%t: %v", time.Now().UTC().Format("15:04:05.000"), caller.stream, err))
					w.mu.Unlock()
				}
				caller.count.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	return w
}

// end stops the callers and fails with what failed.
func (w *traffic) end(during string) {
	w.t.Helper()
	w.stop()
	w.all.Wait()
	w.t.Logf("%s: %d streams and %d whole answers, %d failures", during, w.streams.Load(), w.asks.Load(), len(w.failures))
	if w.streams.Load() == 0 || w.asks.Load() == 0 {
		w.t.Errorf("%s: there was no traffic", during)
	}
	if len(w.failures) > 0 {
		w.t.Errorf("%s: %d calls failed:\n%s", during, len(w.failures), strings.Join(w.failures[:min(10, len(w.failures))], "\n"))
	}
}

// chat is one call, whole.
func chat(ctx context.Context, url, key, model string, stream bool) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": model, "stream": stream, "messages": []map[string]string{{"role": "user", "content": "hello"}}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if !stream {
		var answer struct{ Choices []any }
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Choices) == 0 {
			return fmt.Errorf("an answer of %d choices: %w", len(answer.Choices), err)
		}
		return nil
	}
	return wholeStream(resp.Body)
}

func wholeStream(body io.Reader) error {
	chunks, lines := 0, bufio.NewScanner(body)
	for lines.Scan() {
		switch data, ok := strings.CutPrefix(lines.Text(), "data: "); {
		case !ok:
		case data == "[DONE]" && chunks > 0:
			return nil
		case strings.Contains(data, `"error"`):
			return fmt.Errorf("after %d chunks: %s", chunks, data)
		default:
			chunks++
		}
	}
	return errors.Join(fmt.Errorf("the stream ended after %d chunks without [DONE]", chunks), lines.Err())
}
