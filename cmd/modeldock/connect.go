package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"modeldock.io/internal/api/openapi"
)

// adminEntry is the admin's name in a keys.json.
const adminEntry = "admin"

// answerWithin bounds a call that is no stream.
const answerWithin = time.Minute

// connection is where to ask and as whom.
type connection struct {
	url    string
	key    string
	tenant string // sent with calls, where --tenant names one
	home   string // the saved context's tenant, where the key is the context's too
	api    *openapi.ClientWithResponses
}

// connect resolves URL and key: flags before environment before the saved
// context. With a keys.json, asAdmin picks the admin's key.
func (c *cli) connect(asAdmin bool) (*connection, error) {
	saved, err := c.savedContext()
	if err != nil {
		return nil, err
	}
	conn := &connection{url: first(c.opts.url, os.Getenv("MODELDOCK_URL"), saved.URL), tenant: c.opts.tenant}
	if conn.url == "" {
		return nil, usage("no server known: start one with `modeldock up`, or set --url or MODELDOCK_URL")
	}
	conn.url = strings.TrimSuffix(conn.url, "/")
	if u, err := url.Parse(conn.url); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usage("the URL must be like http://127.0.0.1:8080; got %q", conn.url)
	}
	if saved.URL != "" && conn.url != strings.TrimSuffix(saved.URL, "/") {
		// Its key is the saved server's: nobody else gets to see it.
		saved = savedContext{}
	}
	if c.opts.keyFile == "" && os.Getenv("MODELDOCK_KEY") == "" {
		conn.home = saved.Tenant
	}
	if conn.key, err = c.key(saved, asAdmin); err != nil {
		return nil, err
	}
	conn.api, err = openapi.NewClientWithResponses(conn.url, openapi.WithRequestEditorFn(conn.sign), openapi.WithHTTPClient(&http.Client{Timeout: answerWithin}))
	if err != nil {
		return nil, usage("the URL %q is not valid: %v", conn.url, err)
	}
	return conn, nil
}

func (conn *connection) sign(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+conn.key)
	return nil
}

// whose is the ?tenant= of single-request calls; nil where --tenant is absent.
func (conn *connection) whose() *string {
	if conn.tenant == "" {
		return nil
	}
	return &conn.tenant
}

func (c *cli) key(saved savedContext, asAdmin bool) (string, error) {
	if key := os.Getenv("MODELDOCK_KEY"); key != "" && c.opts.keyFile == "" {
		return key, nil
	}
	path := first(c.opts.keyFile, saved.KeyFile)
	if path == "" {
		return "", usage("no key known for this server: set MODELDOCK_KEY or --key-file")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", failed(fmt.Errorf("read the key file: %w", err))
	}
	data = bytes.TrimSpace(data)
	if !bytes.HasPrefix(data, []byte("{")) {
		return string(data), nil
	}
	var keys map[string]string
	if err := json.Unmarshal(data, &keys); err != nil {
		return "", failed(fmt.Errorf("read %s: %w", path, err))
	}
	return pickKey(keys, c.opts.tenant, saved.Tenant, asAdmin)
}

// pickKey chooses from a keys.json: the admin's for admin verbs, else that of
// the tenant asked for, else the context's, else the admin's.
func pickKey(keys map[string]string, tenant, contextTenant string, asAdmin bool) (string, error) {
	if !asAdmin {
		for _, name := range []string{tenant, contextTenant} {
			if key, ok := keys[name]; ok {
				return key, nil
			}
			if name != "" {
				break
			}
		}
	}
	if key, ok := keys[adminEntry]; ok {
		return key, nil
	}
	wanted := adminEntry
	if !asAdmin {
		wanted = first(tenant, contextTenant, adminEntry)
	}
	return "", usage("the key file has no entry for %q: choose another with --key-file, or set MODELDOCK_KEY", wanted)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// answer is what every call of the generated client returns.
type answer interface {
	StatusCode() int
	Status() string
	ContentType() string
	GetBody() []byte
}

// document200 returns the document of a call that answers 200 with one; every
// other answer is an error with its exit code.
func document200[T any, R interface {
	answer
	GetJSON200() *T
}](resp R, err error) (*T, error) {
	if err := answered(resp, err); err != nil {
		return nil, err
	}
	return there(resp, resp.GetJSON200())
}

// document201 is document200 for calls that create.
func document201[T any, R interface {
	answer
	GetJSON201() *T
}](resp R, err error) (*T, error) {
	if err := answered(resp, err); err != nil {
		return nil, err
	}
	return there(resp, resp.GetJSON201())
}

// document202 is document200 for calls that are accepted and take effect later.
func document202[T any, R interface {
	answer
	GetJSON202() *T
}](resp R, err error) (*T, error) {
	if err := answered(resp, err); err != nil {
		return nil, err
	}
	return there(resp, resp.GetJSON202())
}

func there[T any](resp answer, doc *T) (*T, error) {
	if doc == nil {
		return nil, strangeAnswer(resp.Status(), resp.ContentType())
	}
	return doc, nil
}

// answered checks a call whose answer carries nothing.
func answered(resp answer, err error) error {
	if err != nil {
		return failed(fmt.Errorf("ask the management API: %w", err))
	}
	return check(resp.StatusCode(), resp.Status(), resp.ContentType(), resp.GetBody())
}

// stream opens a long-lived answer that the generated client would buffer.
func (conn *connection) stream(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, conn.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, failed(err)
	}
	_ = conn.sign(ctx, r)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, failed(fmt.Errorf("ask %s: %w", conn.url, err))
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }()
		data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return nil, check(resp.StatusCode, resp.Status, resp.Header.Get("Content-Type"), data)
	}
	return resp, nil
}
