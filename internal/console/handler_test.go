package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// page and chunk are long enough to be compressed.
var (
	page  = "<!doctype html><title>page</title>" + strings.Repeat("<p>words</p>", 100)
	chunk = "export const words = 1;" + strings.Repeat("\nwords;", 200)
)

func build() fstest.MapFS {
	return fstest.MapFS{
		"index.html":           {Data: []byte(page)},
		"theme.js":             {Data: []byte("document")},
		"icon.svg":             {Data: []byte("<svg/>")},
		"assets/_page-1a2b.js": {Data: []byte(chunk)},
		"assets/inter.woff2":   {Data: bytes.Repeat([]byte("w"), 4096)},
	}
}

func setup(t *testing.T) func(method, target string, header ...string) *http.Response {
	t.Helper()
	h := newHandler(build())
	return func(method, target string, header ...string) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, target, nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("read the body: %v", err)
	}
	return string(b)
}

func TestWhichPathsAreThePageAndWhichAreFiles(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	const html = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		target, accept string
		status         int
		want           string // the beginning of the body
	}{
		{"/console/", html, 200, "<!doctype html>"},
		{"/console/index.html", html, 200, "<!doctype html>"},
		{"/console/requests", html, 200, "<!doctype html>"},
		{"/console/evidence/team-a/demo", "", 200, "<!doctype html>"},
		{"/console/requests/team-a/qwen2.5", html, 200, "<!doctype html>"},
		{"/console/requests/team-a/qwen2.5", "*/*", 404, `{"error":{"code":"not_found"`},
		{"/console/assets/_page-1a2b.js", "*/*", 200, "export const"},
		{"/console/assets/_page-older.js", "*/*", 404, `{"error":{"code":"not_found"`},
		{"/console/assets/_page-older.js", html, 404, `{"error":{"code":"not_found"`},
		{"/console/theme.js", "*/*", 200, "document"},
		{"/console/robots.txt", "*/*", 404, `{"error":{"code":"not_found"`},
		{"/console/../console/theme.js", "*/*", 200, "document"},
	} {
		r := ask("GET", c.target, "Accept", c.accept)
		if got := body(t, r); r.StatusCode != c.status || !strings.HasPrefix(got, c.want) {
			t.Errorf("GET %s (Accept: %s) = %d %.40q, want %d %q", c.target, c.accept, r.StatusCode, got, c.status, c.want)
		}
	}
}

func TestThePathWithoutItsSlashLeadsToTheConsole(t *testing.T) {
	t.Parallel()
	r := setup(t)("GET", "/console")
	if r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != Prefix {
		t.Errorf("GET /console = %d to %q, want 308 to /console/", r.StatusCode, r.Header.Get("Location"))
	}
}

func TestOnlyReading(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		r := ask(method, "/console/")
		if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s = %d with Allow %q, want 405 with GET, HEAD", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
	r := ask("HEAD", "/console/")
	if got := body(t, r); r.StatusCode != http.StatusOK || got != "" || r.Header.Get("Content-Length") == "" {
		t.Errorf("HEAD = %d, %d bytes, Content-Length %q; want 200, none, a length", r.StatusCode, len(got), r.Header.Get("Content-Length"))
	}
}

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	for _, target := range []string{"/console/", "/console/assets/_page-1a2b.js", "/console/assets/missing.js", "/console"} {
		h := ask("GET", target).Header
		csp := h.Get("Content-Security-Policy")
		for _, must := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
			"base-uri 'none'", "require-trusted-types-for 'script'",
		} {
			if !strings.Contains(csp, must) {
				t.Errorf("GET %s: the policy lacks %q: %s", target, must, csp)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("GET %s: the policy allows something unsafe: %s", target, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("GET %s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
}

func TestCaching(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	if got := ask("GET", "/console/assets/_page-1a2b.js").Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("a hashed file has Cache-Control %q", got)
	}
	for _, encoding := range []string{"", "gzip"} {
		first := ask("GET", "/console/requests", "Accept-Encoding", encoding)
		tag := first.Header.Get("ETag")
		if first.Header.Get("Cache-Control") != "no-cache" || tag == "" {
			t.Fatalf("the page has Cache-Control %q and ETag %q, want no-cache and a tag", first.Header.Get("Cache-Control"), tag)
		}
		for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			again := ask("GET", "/console/", "Accept-Encoding", encoding, "If-None-Match", known)
			if got := body(t, again); again.StatusCode != http.StatusNotModified || got != "" {
				t.Errorf("If-None-Match %s = %d with %d bytes, want 304 with none", known, again.StatusCode, len(got))
			}
		}
		if other := ask("GET", "/console/", "If-None-Match", `"other"`); other.StatusCode != http.StatusOK {
			t.Errorf("an unknown tag = %d, want 200", other.StatusCode)
		}
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	plain := ask("GET", "/console/assets/_page-1a2b.js")
	for header, zipped := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "GZIP": true,
		"": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "*": false,
	} {
		r := ask("GET", "/console/assets/_page-1a2b.js", "Accept-Encoding", header)
		if got := r.Header.Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("Accept-Encoding %q: compressed is %v, want %v", header, got, zipped)
		}
		if r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary is %q", header, r.Header.Get("Vary"))
		}
		if !zipped {
			continue
		}
		if r.Header.Get("ETag") == plain.Header.Get("ETag") {
			t.Errorf("two representations share the tag %s", r.Header.Get("ETag"))
		}
		zr, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatalf("read gzip: %v", err)
		}
		if got, err := io.ReadAll(zr); err != nil || string(got) != chunk {
			t.Errorf("the compressed copy differs from the file (error %v)", err)
		}
	}
	if r := ask("GET", "/console/assets/inter.woff2", "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "" {
		t.Error("a font, which is compressed already, was compressed again")
	}
}

func TestContentTypesDoNotDependOnTheHost(t *testing.T) {
	t.Parallel()
	ask := setup(t)
	for target, want := range map[string]string{
		"/console/":                     "text/html; charset=utf-8",
		"/console/theme.js":             "text/javascript; charset=utf-8",
		"/console/icon.svg":             "image/svg+xml",
		"/console/assets/inter.woff2":   "font/woff2",
		"/console/assets/_page-1a2b.js": "text/javascript; charset=utf-8",
	} {
		if got := ask("GET", target).Header.Get("Content-Type"); got != want {
			t.Errorf("GET %s: Content-Type is %q, want %q", target, got, want)
		}
	}
}

func TestABinaryWithoutABuildSaysHowToMakeOne(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fstest.MapFS{
		"no folder": nil, "only the placeholder": {".gitkeep": {}},
	} {
		w := httptest.NewRecorder()
		newHandler(files).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/requests", nil))
		if got := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(got, "npm run build") {
			t.Errorf("%s: %d %.60q, want 503 with the commands", name, w.Code, got)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the page may be cached: %q", name, w.Header().Get("Cache-Control"))
		}
	}
}

// The embedded folder is what this checkout built, or nothing: both must serve.
func TestTheEmbeddedFilesServe(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/", nil))
	if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
		t.Errorf("GET /console/ = %d %.80q, want the page, or the words how to build it", w.Code, w.Body.String())
	}
	if w.Code == http.StatusOK && strings.Contains(w.Body.String(), "<script>") {
		t.Error("the built page has an inline script, which its own policy forbids")
	}
}
