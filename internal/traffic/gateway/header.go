package gateway

import (
	"net/http"
	"net/textproto"
	"strings"
)

// forwardedHeader is what the engine gets to see of the caller's header. The
// engine is other people's code: no credential, no cookie and nothing that
// claims an identity reaches it.
func forwardedHeader(in http.Header, requestID string) http.Header {
	named := connectionNamed(in)
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if !hopByHop(name) && !private(name) && !named[name] {
			out[name] = values
		}
	}
	out["X-Request-Id"] = []string{requestID}
	// Events have to be read as they come, and tokens counted.
	out["Accept-Encoding"] = []string{"identity"}
	if _, sent := out["User-Agent"]; !sent {
		out["User-Agent"] = []string{"modeldock"}
	}
	return out
}

// connectionNamed are the headers that Connection declares to be for one hop.
func connectionNamed(h http.Header) map[string]bool {
	lines := h["Connection"]
	if len(lines) == 0 {
		return nil
	}
	named := map[string]bool{}
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return named
}

// hopByHop are the headers of RFC 9110, 7.6.1, with those that this server or
// its transport sets itself.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect", "Host":
		return true
	}
	return false
}

// private are the caller's credentials and what names identities, addresses
// and this product's own controls.
func private(name string) bool {
	if strings.Contains(name, "_") { // many servers take it for a hyphen
		name = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	switch name {
	case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Cookie2", "X-Csrf-Token",
		"Forwarded", "X-Real-Ip", "X-Request-Id", "Accept-Encoding", "Origin", "Referer":
		return true
	}
	return strings.HasPrefix(name, "X-Modeldock-") || strings.HasPrefix(name, "X-Forwarded-")
}

// returnHeader copies what the caller gets to see of the engine's header. An
// engine sets no cookies on this host, makes no claims in our name, and cannot
// put a page under the console's origin.
func returnHeader(out http.Header, a *answer, version string) {
	named := connectionNamed(a.Header)
	for name, values := range a.Header {
		switch {
		case hopByHop(name) || named[name] || strings.HasPrefix(name, "X-Modeldock-") || strings.HasPrefix(name, "X-Ratelimit-"):
		case name == "Set-Cookie" || name == "X-Request-Id" || name == "Alt-Svc" || name == "Strict-Transport-Security":
		case name == "Content-Encoding" && a.decoded:
		default:
			out[name] = values
		}
	}
	out["X-Modeldock-Version"] = []string{version}
	out["X-Content-Type-Options"] = []string{"nosniff"}
	out["Content-Security-Policy"] = []string{"default-src 'none'; sandbox"}
}
