package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic/feed"
	"modeldock.io/internal/traffic/gateway"
)

// trustingClient trusts the one certificate.
func trustingClient(t *testing.T, file string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
}

func certified(t *testing.T) CertificateFiles {
	t.Helper()
	dir := t.TempDir()
	files := CertificateFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	writeCertificate(t, files, 1, time.Now())
	return files
}

// The one listener with a certificate: console, management API and a streamed
// answer by HTTPS, a cookie for HTTPS alone, and nothing by plain HTTP. With it,
// a listener beyond loopback needs no --insecure.
func TestUpWithTLS(t *testing.T) {
	t.Parallel()
	files := certified(t)
	r := up(t, func(o *UpOptions) { o.TLS = files })
	if !strings.HasPrefix(r.URL, "https://127.0.0.1:") {
		t.Fatalf("it is at %s", r.URL)
	}
	client := trustingClient(t, files.Certificate)
	call := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.keys["team-a"])
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	if resp, text := call("POST", "/requests", `{"id":"one","cost":1,"priority":1}`); resp.StatusCode != http.StatusAccepted || resp.ProtoMajor != 2 {
		t.Fatalf("%s %s: %s", resp.Proto, resp.Status, text)
	}
	if resp, text := call("POST", "/v1/chat/completions", `{"model":"one","stream":true,"messages":[{"role":"user","content":"x"}]}`); resp.StatusCode != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(text), "[DONE]") {
		t.Errorf("%s: %s", resp.Status, text)
	}
	resp, text := call("POST", "/session", `{"key":"`+r.keys["team-a"]+`"}`)
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookies %v, %s", c, text)
	}
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(r.URL, "https", "http", 1)+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(plain); err == nil {
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("by plain HTTP: %s", resp.Status)
		}
	}
}

// The rule of --insecure, the same for every process.
func TestBeyondLoopbackOnlyWithTLSOrInsecure(t *testing.T) {
	t.Parallel()
	pair := certified(t)
	for name, validate := range map[string]func(insecure bool, files CertificateFiles) error{
		"up": func(insecure bool, files CertificateFiles) error {
			o := DefaultUpOptions()
			o.Listen, o.Insecure, o.TLS = "0.0.0.0:1", insecure, files
			return o.Validate()
		},
		"controller": func(insecure bool, files CertificateFiles) error {
			o := DefaultControllerOptions()
			o.Listen, o.MySQLDSN, o.Cluster.Enabled, o.Insecure, o.TLS = "[::]:1", "u@tcp(h)/d", true, insecure, files
			return o.Validate()
		},
		"gateway": func(insecure bool, files CertificateFiles) error {
			o := DefaultGatewayOptions()
			o.Listen, o.Control, o.Token, o.Endpoints.Cluster, o.Insecure, o.TLS = "10.0.0.1:1", []string{"http://c"}, strings.Repeat("t", 40), Cluster{Enabled: true, Namespace: "a", System: "b"}, insecure, files
			return o.Validate()
		},
	} {
		if err := validate(false, CertificateFiles{}); err == nil || !strings.Contains(err.Error(), "--tls-cert") || !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s beyond loopback, with nothing: %v", name, err)
		}
		if err := validate(true, CertificateFiles{}); err != nil {
			t.Errorf("%s with --insecure: %v", name, err)
		}
		if err := validate(false, pair); err != nil {
			t.Errorf("%s with TLS: %v", name, err)
		}
		if err := validate(false, CertificateFiles{"none.crt", "none.key"}); err == nil || !strings.Contains(err.Error(), "none.crt") {
			t.Errorf("%s with a certificate that is not there: %v", name, err)
		}
		if err := validate(true, CertificateFiles{Key: "b"}); err == nil {
			t.Errorf("%s takes a key without a certificate", name)
		}
	}
}

// A console user's call reaches a gateway whose certificate an authority of
// one's own has signed, and none that somebody else holds.
func TestForwardTrustsTheNamedAuthority(t *testing.T) {
	t.Parallel()
	files := certified(t)
	secured, err := files.config(time.Now, newControl(io.Discard).log)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := gateway.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := feed.CheckPass("token", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), time.Now()); err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	server.ErrorLog = log.New(io.Discard, "", 0)
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(server, listener, secured) }()
	defer func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended by itself: %v", err)
		}
	}()
	for _, test := range []struct {
		ca     string
		status int
	}{{files.Certificate, http.StatusOK}, {certified(t).Certificate, http.StatusBadGateway}, {"", http.StatusBadGateway}} {
		transport, err := trusting(test.ca)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, urlOf(listener, secured), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+feed.Pass("token", "k", time.Now()))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			if test.status == http.StatusOK {
				t.Error(err)
			}
			continue
		}
		if _ = resp.Body.Close(); resp.StatusCode != test.status {
			t.Errorf("trusting %q: %s", test.ca, resp.Status)
		}
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "nowhere"), files.Key} {
		if _, err := trusting(bad); err == nil || !strings.Contains(err.Error(), "--gateway-ca") {
			t.Errorf("%s is taken: %v", bad, err)
		}
	}
}
