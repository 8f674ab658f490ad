package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"modeldock.io/internal/api"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/traffic/feed"
	"modeldock.io/internal/traffic/gateway"
)

// forward sends the calls of signed-in console users to a gateway, with a pass
// in the place of their cookie. Gateways know keys and passes only; everybody
// else calls them directly.
func (c *controller) forward() (http.Handler, error) {
	to := c.opts.Gateways.URL
	if to == "" {
		return notHere("a controller serves no inference: call the gateway"), nil
	}
	target, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("read the URL of --gateway: %w", err)
	}
	transport, err := trusting(c.opts.Gateways.CAFile)
	if err != nil {
		return nil, err
	}
	unforwarded := outage.New(c.log, c.clock, "console users' calls are not forwarded")
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // every event at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del(api.CSRFHeader)
		},
		ModifyResponse: func(*http.Response) error { unforwarded.Works(); return nil },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if gateway.Stopped(r.Context()) {
				openAIError(w, http.StatusServiceUnavailable, "shutting_down", "this controller stops and has ended the call before its answer; ask again in a few seconds")
				return
			}
			if r.Context().Err() == nil {
				unforwarded.Failed(err, "gateway", to)
			}
			openAIError(w, http.StatusBadGateway, "gateway_unreachable", "the gateway does not answer: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie(api.SessionCookie); err != nil || r.Header.Get("Authorization") != "" {
			openAIError(w, http.StatusNotFound, "not_found", fmt.Sprintf("a controller forwards only what a signed-in console calls; call the gateway at %[1]s/v1, as modeldock chat does with MODELDOCK_GATEWAY=%[1]s", strings.TrimSuffix(to, "/")))
			return
		}
		who, err := c.api.Identify(r)
		if status, message, ok := api.Refused(err); ok {
			openAIError(w, status, "session_refused", message)
			return
		}
		if err != nil {
			c.unchecked.Failed(err)
			openAIError(w, http.StatusServiceUnavailable, "session_unknown", "the ledger cannot say right now whose session this is; try again, or call the gateway with an API key")
			return
		}
		c.unchecked.Works()
		r.Header.Set("Authorization", "Bearer "+feed.Pass(c.opts.Gateways.Token, who.KeyID, c.clock()))
		proxy.ServeHTTP(w, r)
	}), nil
}

// trusting also trusts who signs by the file's certificates. The file is read
// once: authorities last for years.
func trusting(file string) (http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if file == "" {
		return transport, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --gateway-ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image from scratch has none
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read --gateway-ca: %s holds no certificate in PEM", file)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// openAIError answers on /v1 as a gateway would.
func openAIError(w http.ResponseWriter, status int, code, message string) {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusUnauthorized:
		kind = "authentication_error"
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}})
}
