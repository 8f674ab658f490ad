package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
)

// bench is a gateway in front of scripted engines.
type bench struct {
	t        *testing.T
	url      string
	table    *route.Table
	gateway  *gateway.Gateway
	server   *gateway.Server
	records  *memoryRecorder
	registry *prometheus.Registry
	snapshot atomic.Pointer[traffic.Snapshot]
	client   *http.Client
}

// memoryRecorder keeps records in the order in which they came.
type memoryRecorder struct {
	mu   sync.Mutex
	list []traffic.Inference
}

func (m *memoryRecorder) Record(i traffic.Inference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, i)
}

func (m *memoryRecorder) all() []traffic.Inference {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]traffic.Inference(nil), m.list...)
}

const (
	keyA     = "mdk_aaaa_secret-of-a"
	keyB     = "mdk_bbbb_secret-of-b"
	keyAdmin = "mdk_root_secret-of-root"
	keyOld   = "mdk_oldd_secret-of-old"
)

func credential(key, tenant string) traffic.Key {
	parts := strings.SplitN(key, "_", 3)
	return traffic.Key{ID: parts[1], Tenant: tenant, SecretHash: sha256.Sum256([]byte(parts[2]))}
}

// baseSnapshot: team-a owns "m1" (and once owned "gone"); team-b owns "m2".
func baseSnapshot() *traffic.Snapshot {
	admin := credential(keyAdmin, "")
	admin.Admin = true
	old := credential(keyOld, "team-a")
	old.ExpiresAt = time.Now().Add(-time.Minute)
	keys := map[string]traffic.Key{}
	for _, k := range []traffic.Key{credential(keyA, "team-a"), credential(keyB, "team-b"), admin, old} {
		keys[k.ID] = k
	}
	return &traffic.Snapshot{
		Version: 1, At: time.Now(), Keys: keys,
		Models: []traffic.Model{model("team-a", "m1", "v1"), model("team-b", "m2", "v1")},
		Grants: map[traffic.GrantKey]struct{}{},
		Owned: map[string]map[string]struct{}{
			"team-a": {"m1": {}, "gone": {}},
			"team-b": {"m2": {}},
		},
	}
}

func model(owner, name, version string) traffic.Model {
	return traffic.Model{
		Owner: owner, Name: name, Version: version, RequestID: "r-" + name + "-" + version,
		ObjectUID: "obj-" + name + "-" + version, Weight: 100, CreatedAt: time.Unix(1_700_000_000, 0),
		WaitTimeout: 30 * time.Second, MaxWaiting: 100,
	}
}

func setup(t *testing.T, adjust ...func(*gateway.Config)) *bench {
	t.Helper()
	b := &bench{t: t, table: route.New(time.Now), records: &memoryRecorder{}, registry: prometheus.NewRegistry()}
	b.snapshot.Store(baseSnapshot())
	cfg := gateway.Config{
		Snapshot: b.snapshot.Load, Table: b.table, Recorder: b.records,
		Logger: slog.New(slog.DiscardHandler), Registerer: b.registry,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	if b.gateway, err = gateway.New(cfg); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.server = gateway.NewServer(b.gateway)
	go func() { _ = b.server.Serve(listener) }()
	b.url = "http://" + listener.Addr().String()
	b.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		_ = b.server.Close()
		b.gateway.Close()
	})
	return b
}

// publish changes a copy of the snapshot and makes it the current one.
func (b *bench) publish(change func(*traffic.Snapshot)) {
	next := *b.snapshot.Load()
	next.Version++
	next.Models = append([]traffic.Model(nil), next.Models...)
	change(&next)
	b.snapshot.Store(&next)
}

// engine starts an HTTP engine for one version and routes to it.
func (b *bench) engine(owner, name, version string, handler http.HandlerFunc) traffic.Endpoint {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	b.t.Cleanup(func() { _ = server.Close() })
	e := endpoint(owner, name, version, listener.Addr().String())
	b.table.Upsert(e)
	return e
}

func endpoint(owner, name, version, address string) traffic.Endpoint {
	return traffic.Endpoint{
		UID: "pod-" + owner + name + version, Owner: owner, Model: name, Version: version,
		RequestID: "r-" + name + "-" + version, ObjectUID: "obj-" + name + "-" + version,
		Address: address, Upstream: "engine-" + name,
	}
}

// rawEngine answers every connection by script, which gets the request after
// its head and body were read, and the connection to write to.
func (b *bench) rawEngine(owner, name, version string, script func(conn *net.TCPConn)) {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if readRequest(conn) == nil {
					script(conn.(*net.TCPConn))
				}
			}()
		}
	}()
	b.table.Upsert(endpoint(owner, name, version, listener.Addr().String()))
}

// result is one answer, read to its end.
type result struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// call sends a request; header pairs follow the body.
func (b *bench) call(method, path, key, body string, header ...string) result {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(text), err}
}

func (b *bench) chat(key, body string, header ...string) result {
	b.t.Helper()
	return b.call(http.MethodPost, "/v1/chat/completions", key, body, header...)
}

// apiError is the error object of an answer.
type apiError struct {
	Message, Type string
	Param, Code   any
}

// errorOf checks that an answer is OpenAI's error shape and returns the object.
func errorOf(t *testing.T, r result) apiError {
	t.Helper()
	var doc struct {
		Error *struct {
			Message string  `json:"message"`
			Type    *string `json:"type"`
			Param   any     `json:"param"`
			Code    any     `json:"code"`
		} `json:"error"`
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q of error %q", got, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil || doc.Error == nil {
		t.Fatalf("not an OpenAI error: %q (%v)", r.body, err)
	}
	if doc.Error.Message == "" {
		t.Errorf("empty message in %q", r.body)
	}
	if _, text := doc.Error.Code.(string); !text && doc.Error.Code != nil {
		t.Errorf("code is neither a string nor null: %q", r.body)
	}
	if !strings.HasPrefix(r.header.Get("X-Request-Id"), "req_") {
		t.Errorf("x-request-id %q", r.header.Get("X-Request-Id"))
	}
	e := apiError{Message: doc.Error.Message, Param: doc.Error.Param, Code: doc.Error.Code}
	if doc.Error.Type != nil {
		e.Type = *doc.Error.Type
	}
	return e
}

// record waits for the final record of a request.
func (b *bench) record(id string) traffic.Inference {
	b.t.Helper()
	var found traffic.Inference
	eventually(b.t, "the record of "+id, func() bool {
		for _, r := range b.records.all() {
			if r.RequestID == id && r.Outcome != "" {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// eventually waits for a condition with a deadline that only a failure meets.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

const helloChat = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
const helloStream = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true}`

func chunkEvent(content string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + content + `"},"finish_reason":null}]}` + "\n\n"
}

const (
	roleEvent  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	stopEvent  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageEvent = `data: {"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"
	wholeChat  = `{"id":"c1","object":"chat.completion","created":1,"model":"engine-m1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
)
