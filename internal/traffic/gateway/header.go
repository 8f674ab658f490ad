package gateway

import (
	"net/http"
	"net/textproto"
	"strings"
)

// forwardedHeader is what the engine gets to see of the caller's header. The
// engine is other people's code: what it has no use for does not reach it,
// because nobody knows all the names under which proxies and clients send
// credentials, addresses and identities.
func forwardedHeader(in http.Header, requestID string) http.Header {
	named := connectionNamed(in)
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if forEngines(name) && !named[name] {
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

// forEngines is what engines use: what the body is, what is accepted, who
// belongs together, and what OpenAI's clients tell about the request.
func forEngines(name string) bool {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "Idempotency-Key", "Traceparent", "Tracestate", "User-Agent", "X-Session-Id":
		return true
	}
	return strings.HasPrefix(name, "Openai-")
}

// returnHeader copies what the caller gets to see of the engine's header: what
// the body is, and what OpenAI tells of an answer. An engine sets no cookies on
// this host, tells browsers nothing about it, makes no claims in our name, and
// cannot put a page under the console's origin.
func returnHeader(out http.Header, a *answer, version string) {
	named := connectionNamed(a.Header)
	for name, values := range a.Header {
		switch {
		case named[name], name == "Content-Encoding" && a.decoded:
		case forCallers(name):
			out[name] = values
		}
	}
	out["X-Modeldock-Version"] = []string{version}
	out["X-Content-Type-Options"] = []string{"nosniff"}
	out["Content-Security-Policy"] = []string{"default-src 'none'; sandbox"}
}

func forCallers(name string) bool {
	switch name {
	case "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type", "Retry-After":
		return true
	}
	return strings.HasPrefix(name, "Openai-")
}
