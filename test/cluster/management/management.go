// Package management calls the management API over HTTP, for tests and
// benchmarks that put load on it: it keeps connections open, and tells an
// answer from none.
package management

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// callWait bounds one call.
const callWait = 10 * time.Second

// Client calls one API with one key.
type Client struct {
	URL string
	Key string
}

// NoAnswerError says that a call was not answered, so that nobody knows
// whether it took effect.
type NoAnswerError struct{ Cause error }

func (e *NoAnswerError) Error() string { return "no answer: " + e.Cause.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Cause }

// RefusedError is an answer that is no success.
type RefusedError struct {
	Call   string
	Status int
	Body   string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s answered %d: %.400s", e.Call, e.Status, e.Body)
}

// Call sends body as JSON (nil: none) and decodes the answer into into (nil:
// it is not read).
func (c Client) Call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	text := []byte{}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the body of %s %s: %w", method, path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return &NoAnswerError{err}
	}
	defer func() { _ = resp.Body.Close() }() // it is read whole
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return &NoAnswerError{err}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return &RefusedError{method + " " + path, resp.StatusCode, string(answer)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w: %.200s", method, path, err, answer)
	}
	return nil
}

// Record is what a caller looks at of a request.
type Record struct {
	ID, Tenant, State, Reason, Message string
	Held                               int64
	Generation                         int64
	FundedReplicas                     int
	ReadyReplicas                      int
	ReservedAt                         time.Time
	ReleaseRequestedAt                 *time.Time
	Object                             struct{ Name, UID string }
}

// List reads all requests of a state, page by page.
func (c Client) List(ctx context.Context, state string) ([]Record, error) {
	var all []Record
	for after := ""; ; {
		var page struct {
			Items []Record
			Next  string
		}
		path := "/requests?limit=500&state=" + state
		if after != "" {
			path += "&after=" + after
		}
		if err := c.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}
