package app

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/delivery/local/procfs"
)

// nearby reports whether a request comes from this machine's own people: not
// through a proxy, which speaks for others, not from a page whose name was
// pointed here, and not from an engine, which is a tenant's.
func nearby(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && loopback(host) && !forwarded(r) && namesLoopback(r.Host) && !fromEngine(r)
}

// forwarded reports whether a proxy says that it sent the request.
func forwarded(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded"):
			return true
		}
	}
	return false
}

// namesLoopback judges the name that the caller used: a browser sends the one
// of the page's address, whatever that name leads to.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopback(strings.ToLower(strings.Trim(host, "[]")))
}

// fromEngine reports whether the socket at the other end belongs to one of the
// users that tenants' engines run as. Only root gives them away; whose socket
// root cannot see counts as one.
func fromEngine(r *http.Request) bool {
	if os.Geteuid() != 0 {
		return false
	}
	here, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if !ok || err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	to, err := netip.ParseAddrPort(here.String())
	if err != nil {
		return true
	}
	uid, found, err := procfs.PeerUID(peer, to)
	return err != nil || !found || local.IsEngineUser(uid)
}

// loopbackOnly hides metrics and profiles from all others: they name tenants.
func loopbackOnly(next http.Handler) http.Handler {
	return only(nearby, "answers callers on this machine only: no engine, nothing that a proxy forwards, and only by a loopback name or address", next)
}

// notForEngines keeps an operations listener on loopback from tenants.
func notForEngines(next http.Handler) http.Handler {
	return only(func(r *http.Request) bool { return !fromEngine(r) }, "is not for engines", next)
}

func only(may func(*http.Request) bool, why string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !may(r) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(openapi.Error{Error: openapi.ErrorBody{Code: "forbidden", Message: r.URL.Path + " " + why}})
			return
		}
		next.ServeHTTP(w, r)
	})
}
