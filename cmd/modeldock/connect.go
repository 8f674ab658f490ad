package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"modeldock.io/internal/api/openapi"
)

// adminEntry is the admin's name in a keys.json.
const adminEntry = "admin"

// contexts is the saved ~/.config/modeldock/config.yaml.
type contexts struct {
	Current  string                  `json:"current"`
	Contexts map[string]savedContext `json:"contexts"`
}

type savedContext struct {
	URL     string `json:"url"`
	KeyFile string `json:"keyFile"`
	Tenant  string `json:"tenant,omitempty"` // whose key plain verbs use
}

func contextsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration directory: %w", err)
	}
	return filepath.Join(dir, "modeldock", "config.yaml"), nil
}

func loadContexts() (contexts, error) {
	var c contexts
	path, err := contextsPath()
	if err != nil {
		return c, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the saved contexts: %w", err)
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	return c, nil
}

// saveContext stores ctx under name and makes it the current one.
func saveContext(name string, ctx savedContext) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]savedContext{}
	}
	all.Current, all.Contexts[name] = name, ctx
	data, err := yaml.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the saved contexts: %w", err)
	}
	path, err := contextsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save the context: %w", err)
	}
	// A command that reads at this moment sees the old file or the new one.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // 0600
	if err != nil {
		return fmt.Errorf("save the context: %w", err)
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("save the context: %w", err)
	}
	return nil
}

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

func (c *cli) savedContext() (savedContext, error) {
	all, err := loadContexts()
	if err != nil {
		return savedContext{}, failed(err)
	}
	name := first(c.opts.context, all.Current)
	saved, ok := all.Contexts[name]
	if !ok && c.opts.context != "" {
		return saved, usage("no context %q is saved", c.opts.context)
	}
	return saved, nil
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

// check turns an answer that is not a success into an error with its exit code.
func check(err error, resp *http.Response, body []byte) error {
	if err != nil {
		return failed(fmt.Errorf("ask the management API: %w", err))
	}
	if resp.StatusCode < 300 {
		if len(body) > 0 && !strings.Contains(resp.Header.Get("Content-Type"), "json") {
			return strangeAnswer(resp)
		}
		return nil
	}
	var e openapi.Error
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		return &exitError{exitOf(resp.StatusCode), fmt.Errorf("%s answered %s: is there a ModelDock at %s?", resp.Request.URL.Path, resp.Status, resp.Request.URL.Host)}
	}
	message := e.Error.Message
	field := text(e.Error.Field)
	if field != "" && !strings.Contains(message, field) {
		message += " (field " + field + ")"
	}
	if e.Error.Code != "" { // the gateway has errors without one
		message += " (" + e.Error.Code + ")"
	}
	if field == "tenant" && resp.StatusCode == http.StatusBadRequest {
		message += "; on the command line: --tenant NAME"
	}
	return &exitError{exitOf(resp.StatusCode), errors.New(plain(message))}
}

// expect is check for an answer that has to be a document.
func expect(isThere bool, resp *http.Response, body []byte) error {
	if err := check(nil, resp, body); err != nil {
		return err
	}
	if !isThere {
		return strangeAnswer(resp)
	}
	return nil
}

func strangeAnswer(resp *http.Response) error {
	return failed(fmt.Errorf("%s answered %s with %q, which no ModelDock does: is it at %s?",
		resp.Request.URL.Path, resp.Status, resp.Header.Get("Content-Type"), resp.Request.URL.Host))
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
		return nil, check(nil, resp, data)
	}
	return resp, nil
}
