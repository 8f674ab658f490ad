package console

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// Prefix is the path below which the handler answers. Handler strips it
// itself: mount it as it is, for both Prefix and Prefix without its last slash.
const Prefix = "/console/"

// indexPage is the page that every route of the console begins with.
const indexPage = "index.html"

// policy lets the page run its own files and nothing else: no inline script
// or style, no eval, no other host, and no string that becomes HTML except
// through Vue's own template policy.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types vue"

// Handler serves the built console below Prefix. It is safe for concurrent
// use and reads its files once, when it is made.
func Handler() http.Handler {
	files, err := builtFiles()
	if err != nil {
		return unreadable(err)
	}
	return newHandler(files)
}

// newHandler serves the files of one build.
func newHandler(files fs.FS) http.Handler {
	assets, err := loadAssets(files)
	if err != nil {
		return unreadable(err)
	}
	return &site{assets: assets}
}

// unreadable answers for a binary whose embedded files cannot be read. The
// rest of ModelDock does not depend on them, so that it is no reason to stop.
func unreadable(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		setSecurityHeaders(w.Header())
		refuse(w, http.StatusInternalServerError, "internal", "the console's files cannot be read: "+err.Error())
	})
}

// site is one build of the console.
type site struct {
	assets map[string]*asset // by path without a leading slash
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "the console answers GET and HEAD only")
		return
	}
	if r.URL.Path == strings.TrimSuffix(Prefix, "/") {
		http.Redirect(w, r, Prefix, http.StatusPermanentRedirect)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), strings.TrimSuffix(Prefix, "/"))
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		name = indexPage
	}
	s.serve(w, r, name)
}

// serve answers with the file of that name, with the page for a path that is
// one of the page's own routes, or with 404.
func (s *site) serve(w http.ResponseWriter, r *http.Request, name string) {
	if found, ok := s.assets[name]; ok {
		found.serve(w, r)
		return
	}
	if name != indexPage && isFile(name, r.Header.Get("Accept")) {
		refuse(w, http.StatusNotFound, "not_found", "no such file in this build of the console; reload the page")
		return
	}
	page, ok := s.assets[indexPage]
	if !ok {
		serveNotBuilt(w, r)
		return
	}
	page.serve(w, r)
}

// isFile reports whether a path that does not exist was meant as a file. A
// page of an older build must get 404 for its chunks, never HTML as a module;
// a route such as requests/team-a/qwen2.5 has a dot and is asked for as HTML.
func isFile(name, accept string) bool {
	if strings.HasPrefix(name, assetsFolder) {
		return true
	}
	return strings.Contains(path.Base(name), ".") && !strings.Contains(accept, "text/html")
}

// refuse answers in the shape of the management API, which shares the listener.
func refuse(w http.ResponseWriter, status int, code, message string) {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}}) // strings only
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
}

// notBuilt is the one page of a binary that was built without Node.
const notBuilt = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>ModelDock console: not built</title>
<h1>The console is not part of this binary</h1>
<p>The management API and the gateway work without it. To have the console, run in the source tree:</p>
<pre>cd console
npm ci
npm run build
cd ..
go build ./cmd/modeldock</pre>
</html>
`

func serveNotBuilt(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	if r.Method == http.MethodGet {
		// A caller that has gone away is no error of ours.
		_, _ = w.Write([]byte(notBuilt))
	}
}
