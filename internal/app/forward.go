package app

import (
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"modeldock.io/internal/api"
	"modeldock.io/internal/traffic/feed"
)

// forward sends the calls of signed-in console users to a gateway, with a pass
// in the place of their cookie. Gateways know keys and passes only; everybody
// else calls them directly.
func (c *controller) forward() http.Handler {
	to := c.opts.Gateways.URL
	if to == "" {
		return notHere("a controller serves no inference: call the gateway")
	}
	target, err := url.Parse(to)
	if err != nil {
		return notHere("the gateway's URL cannot be read: " + err.Error())
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // every event at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del(api.CSRFHeader)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			c.log.Warn("a console user's call is not forwarded", "gateway", to, "error", err)
			openAIError(w, http.StatusBadGateway, "gateway_unreachable", "the gateway does not answer: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie(api.SessionCookie); err != nil || r.Header.Get("Authorization") != "" {
			openAIError(w, http.StatusNotFound, "not_found", "a controller forwards only what a signed-in console calls; call the gateway at "+strings.TrimSuffix(to, "/")+"/v1")
			return
		}
		who, err := c.api.Identify(r)
		if status, message, ok := api.Refused(err); ok {
			openAIError(w, status, "session_refused", message)
			return
		}
		if err != nil {
			openAIError(w, http.StatusServiceUnavailable, "session_unknown", "the ledger cannot say right now whose session this is; try again, or call the gateway with an API key")
			return
		}
		r.Header.Set("Authorization", "Bearer "+feed.Pass(c.opts.Gateways.Token, who.KeyID, c.clock()))
		proxy.ServeHTTP(w, r)
	})
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
